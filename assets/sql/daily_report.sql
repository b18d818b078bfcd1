-- A day of the shop's own clock, 23 to 25 hours long. FINAL waits for nobody: what comes after midnight is late.
CREATE MATERIALIZED VIEW daily_report AS
SELECT window_start, window_end, product,
       COUNT(*) AS sales,
       SUM(quantity) AS items,
       SUM(quantity * price) AS revenue
FROM TUMBLE(sales, event_time, INTERVAL '1' DAY, TIME ZONE 'Europe/Berlin')
GROUP BY window_start, window_end, product
EMIT FINAL
WITH (
    description = 'What was sold of each product on a day in Berlin.',
    group = 'reports', owners = 'team:finance, ana@example.com', tags = 'tier=gold, report',
    partition_time_zone = 'Europe/Berlin'
);
