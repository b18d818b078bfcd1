CREATE MATERIALIZED VIEW out AS
WITH big AS (SELECT * FROM sales WHERE amount > 100), vips AS (SELECT region, event_time FROM big WHERE vip)
SELECT window_start, COUNT(*) AS n
FROM TUMBLE(vips, event_time, INTERVAL '1' MINUTE)
GROUP BY window_start
EMIT FINAL;
