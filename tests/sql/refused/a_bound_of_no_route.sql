CREATE MATERIALIZED VIEW out AS
SELECT window_start, COUNT(*) AS n FROM TUMBLE(sales, event_time, INTERVAL '1' MINUTE) GROUP BY window_start
WITH (side_output.route_timeout = '1 second');
