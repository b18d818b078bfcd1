CREATE MATERIALIZED VIEW out AS
SELECT window_start, COUNT(*) AS n FROM TUMBLE(sales, event_time, INTERVAL '1' MINUTE) GROUP BY window_start
WITH (side_output.late = 'kafka:late', side_output.brokers = 'b:9092', side_output.on_saturation = 'wait',
      side_output.route_max_rows = 10);
