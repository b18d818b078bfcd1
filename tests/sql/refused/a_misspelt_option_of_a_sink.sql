CREATE MATERIALIZED VIEW totals AS
SELECT window_start, region, SUM(amount) AS total
FROM TUMBLE(sales, event_time, INTERVAL '1' MINUTE)
GROUP BY window_start, region
EMIT FINAL;

CREATE SINK archive FROM totals WITH (connector = 'delta', path = 'out', mod = 'append');
