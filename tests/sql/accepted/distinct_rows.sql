CREATE MATERIALIZED VIEW out AS
SELECT DISTINCT window_start, upper(region) AS region, date(window_end) AS day
FROM TUMBLE(sales, event_time, INTERVAL '1' MINUTE)
EMIT ON WINDOW CLOSE;
