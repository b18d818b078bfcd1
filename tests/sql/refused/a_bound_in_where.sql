CREATE MATERIALIZED VIEW out AS
SELECT window_start, COUNT(*) AS n
FROM TUMBLE(sales, event_time, INTERVAL '1' MINUTE)
WHERE window_start > '2026-01-01'
GROUP BY window_start, window_end
EMIT FINAL;
