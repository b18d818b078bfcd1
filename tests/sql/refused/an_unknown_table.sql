CREATE MATERIALIZED VIEW out AS
SELECT s.region, COUNT(*) AS n
FROM TUMBLE(sales, event_time, INTERVAL '1' MINUTE)
GROUP BY window_start, window_end
EMIT FINAL;
