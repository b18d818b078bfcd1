CREATE MATERIALIZED VIEW out AS
SELECT window_start, region, SUM(amount) AS total
FROM TUMBLE(sales, event_time, INTERVAL '1' MINUTE)
GROUP BY window_start, window_end, region
QUALIFY ROW_NUMBER() OVER (PARTITION BY window_start ORDER BY SUM(amount) DESC) <= 3
GAP FILL LOCF
EMIT ON WINDOW CLOSE;
