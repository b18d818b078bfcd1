CREATE MATERIALIZED VIEW out AS
SELECT window_start, r.region, amount, n AS place
FROM (
    SELECT *, window_start, ROW_NUMBER() OVER (PARTITION BY window_start, region ORDER BY amount DESC NULLS LAST) AS n
    FROM TUMBLE(sales, event_time, INTERVAL '1' MINUTE)
    WHERE amount > 0
) r
WHERE 3 >= n AND region <> 'x'
EMIT ON WINDOW CLOSE;
