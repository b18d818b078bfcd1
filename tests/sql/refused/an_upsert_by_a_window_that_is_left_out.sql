CREATE MATERIALIZED VIEW totals AS
SELECT region, SUM(amount) AS total
FROM TUMBLE(sales, event_time, INTERVAL '1' MINUTE)
GROUP BY window_start, region
EMIT ON UPDATE;

CREATE SINK current FROM totals WITH (connector = 'delta', path = 'out', mode = 'upsert');
