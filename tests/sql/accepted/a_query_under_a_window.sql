CREATE MATERIALIZED VIEW out AS
SELECT window_start, COUNT(*) AS n
FROM TUMBLE((SELECT * FROM (SELECT region, price * 2 AS p, event_time FROM sales) WHERE p > 3), event_time, INTERVAL '1' MINUTE)
GROUP BY window_start, window_end
EMIT FINAL;
