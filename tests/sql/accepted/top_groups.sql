CREATE MATERIALIZED VIEW out AS
WITH numbered AS (
    SELECT window_start, region, SUM(amount) AS total,
        ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY SUM(amount) DESC, region) AS n
    FROM TUMBLE(sales, event_time, INTERVAL '1' MINUTE)
    GROUP BY window_start, window_end, region
    HAVING COUNT(*) > 1
)
SELECT window_start, region, total FROM numbered WHERE n < 4
EMIT ON WINDOW CLOSE;
