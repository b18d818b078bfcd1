CREATE SOURCE orders (id BIGINT, price DOUBLE, qty INT, at STRING, total AS price * qty, t AS to_timestamp(at), WATERMARK FOR t)
WITH (connector = 'memory');
CREATE MATERIALIZED VIEW out AS
SELECT window_start, SUM(total) AS total FROM TUMBLE(orders, t, INTERVAL '1' HOUR) GROUP BY window_start, window_end;
