CREATE MATERIALIZED VIEW totals AS
SELECT window_start, region, SUM(amount) AS total
FROM TUMBLE(sales, event_time, INTERVAL '1' MINUTE)
GROUP BY window_start, region;

CREATE SINK feed FROM totals WITH (connector = 'kafka', brokers = 'b:9092', topic = 't');
