CREATE MATERIALIZED VIEW out AS
SELECT window_start, COUNT(*) AS n
FROM HOP(sales, event_time, INTERVAL '2' MINUTE, INTERVAL '1' MINUTE)
GROUP BY window_start, window_end
EMIT FINAL;
