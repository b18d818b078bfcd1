-- Ten minutes of each region at a glance. FINAL waits for nobody: what arrives after the window's end is late.
CREATE MATERIALIZED VIEW sales_by_region_10min AS
SELECT window_start, window_end, region,
       COUNT(*) AS sales,
       AVG(price) AS average_price,
       MAX(price) AS highest_price,
       SUM(quantity) FILTER (WHERE product = 'tea') AS teas
FROM TUMBLE(sales, event_time, INTERVAL '10' MINUTE)
GROUP BY window_start, window_end, region
HAVING COUNT(*) >= 5
EMIT FINAL;
