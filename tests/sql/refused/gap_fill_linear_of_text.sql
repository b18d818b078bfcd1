CREATE MATERIALIZED VIEW out AS
SELECT window_start, region, MAX(region) AS top
FROM TUMBLE(sales, event_time, INTERVAL '1' MINUTE)
GROUP BY window_start, window_end, region
GAP FILL LINEAR
EMIT ON WINDOW CLOSE;
