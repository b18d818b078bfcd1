CREATE MATERIALIZED VIEW out AS
SELECT window_start, COUNT(*) AS n
FROM TUMBLE(sales, event_time, INTERVAL '1' MINUTE)
GROUP BY window_start, window_end
ALLOW LATENESS INTERVAL '1' MINUTE
EMIT FINAL
WITH (allowed_lateness = '1 minute');
