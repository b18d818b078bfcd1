CREATE MATERIALIZED VIEW out AS
SELECT window_start, sold_on, YEAR(sold_on) AS y, COUNT(*) AS n
FROM TUMBLE(sales, event_time, INTERVAL '1' MINUTE)
GROUP BY window_start, sold_on
EMIT FINAL;
