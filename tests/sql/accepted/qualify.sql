CREATE MATERIALIZED VIEW out AS
SELECT window_start, region, amount
FROM TUMBLE(sales, event_time, INTERVAL '1' MINUTE)
QUALIFY ROW_NUMBER() OVER (PARTITION BY window_start, region ORDER BY event_time) = 1
EMIT ON WINDOW CLOSE;
