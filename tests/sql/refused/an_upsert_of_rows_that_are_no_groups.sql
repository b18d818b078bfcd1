CREATE MATERIALIZED VIEW big AS
SELECT window_start, region, amount
FROM TUMBLE(sales, event_time, INTERVAL '1' MINUTE)
WHERE amount > 10
;

CREATE SINK current FROM big WITH (connector = 'delta', path = 'out', mode = 'upsert');
