CREATE MATERIALIZED VIEW out AS
SELECT region, n * 2 AS twice
FROM (
    SELECT region, ROW_NUMBER() OVER (PARTITION BY window_start ORDER BY amount) AS n
    FROM TUMBLE(sales, event_time, INTERVAL '1' MINUTE)
)
EMIT FINAL;
