-- A minute is published once, when late sales had a minute to arrive.
CREATE MATERIALIZED VIEW sales_per_minute AS
SELECT window_start, window_end, region,
       COUNT(*) AS sales,
       SUM(quantity) AS items,
       SUM(quantity * price) AS revenue
FROM TUMBLE(sales, event_time, INTERVAL '1' MINUTE)
WHERE quantity > 0
GROUP BY window_start, window_end, region
ALLOW LATENESS INTERVAL '1' MINUTE
EMIT ON WINDOW CLOSE
WITH (
    description = 'What each region sold, minute by minute.',
    group = 'sales', owners = 'team:shop', tags = 'tier=gold'
);
