-- ON WATERMARK shows a window as soon as it is over, and corrects it while late sales may still come.
CREATE MATERIALIZED VIEW sales_last_5_minutes AS
SELECT window_start, window_end, region,
       COUNT(*) AS sales,
       AVG(price) AS average_price,
       SUM(quantity) FILTER (WHERE product = 'tea') AS teas
FROM HOP(sales, event_time, INTERVAL '1' MINUTE, INTERVAL '5' MINUTES)
GROUP BY window_start, window_end, region
ALLOW LATENESS INTERVAL '2' MINUTES
EMIT ON WATERMARK
WITH (
    description = 'The last five minutes of each region, every minute.',
    group = 'sales', owners = 'team:shop', tags = 'tier=silver'
);
