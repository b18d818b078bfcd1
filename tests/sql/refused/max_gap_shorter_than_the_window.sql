CREATE MATERIALIZED VIEW out AS
SELECT window_start, region, SUM(qty) AS n
FROM TUMBLE(sales, event_time, INTERVAL '1' MINUTE)
GROUP BY window_start, window_end, region
GAP FILL LOCF
EMIT ON WINDOW CLOSE
WITH (max_gap = '30 seconds');
