CREATE MATERIALIZED VIEW out AS
SELECT window_start, COUNT(*) AS n
FROM CUMULATE(sales, event_time, INTERVAL '1' MINUTE, INTERVAL '1' HOUR)
GROUP BY window_start, window_end
EMIT FINAL;
