CREATE SOURCE orders (id BIGINT, x DOUBLE, at TIMESTAMP, WATERMARK FOR at)
WITH (connector = 'files', format = 'csv', path = 'landing');
CREATE MATERIALIZED VIEW v AS
SELECT window_start, COUNT(*) AS n FROM TUMBLE(orders, at, INTERVAL '1' MINUTE) GROUP BY window_start, window_end
WITH (side_output.error = 'reinject', side_output.reinject_to = 'again');
