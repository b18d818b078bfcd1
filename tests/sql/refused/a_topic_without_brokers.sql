CREATE SOURCE orders (id BIGINT, x DOUBLE, at TIMESTAMP, WATERMARK FOR at)
WITH (connector = 'files', format = 'json', path = 'landing');
CREATE MATERIALIZED VIEW v AS
SELECT window_start, COUNT(*) AS n FROM TUMBLE(orders, at, INTERVAL '1' MINUTE) GROUP BY window_start, window_end
WITH (side_output.late = 'kafka:late');
