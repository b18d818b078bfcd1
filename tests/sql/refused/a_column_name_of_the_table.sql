CREATE MATERIALIZED VIEW out AS
SELECT window_start, COUNT(*) AS _Partition
FROM TUMBLE(sales, event_time, INTERVAL '1' MINUTE)
GROUP BY window_start, window_end
EMIT FINAL;
