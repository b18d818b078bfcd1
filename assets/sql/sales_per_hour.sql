-- A view over a view: each of its ticks takes what sales_per_minute published since, corrections too. An hour is shown
-- while it grows.
CREATE MATERIALIZED VIEW sales_per_hour AS
SELECT window_start, window_end, region,
       SUM(sales) AS sales,
       SUM(revenue) AS revenue,
       MAX(revenue) AS best_minute
FROM TUMBLE(sales_per_minute, window_start, INTERVAL '1' HOUR)
GROUP BY window_start, window_end, region
EMIT ON UPDATE
WITH (
    description = 'What each region sold, hour by hour, from the minutes.',
    group = 'sales', owners = 'team:shop', tags = 'tier=gold'
);
