CREATE MATERIALIZED VIEW out AS
SELECT window_start, COUNT(*) AS n
FROM TUMBLE(sales, event_time, INTERVAL '1' MINUTE)
LATERAL VIEW explode(tags) t AS a
GROUP BY window_start
EMIT FINAL;
