CREATE MATERIALIZED VIEW out AS
SELECT window_start, region, RANK() OVER (PARTITION BY window_start ORDER BY SUM(amount)) AS place
FROM TUMBLE(sales, event_time, INTERVAL '1' MINUTE)
GROUP BY window_start, window_end, region
EMIT FINAL;
