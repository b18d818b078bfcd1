CREATE MATERIALIZED VIEW totals AS
SELECT window_start, region, SUM(amount) AS total
FROM TUMBLE(sales, event_time, INTERVAL '1' MINUTE)
GROUP BY window_start, region
EMIT FINAL;

CREATE SINK events FROM totals WITH (connector = 'files', path = 'out', format = 'debezium', mode = 'append');
