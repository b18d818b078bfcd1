CREATE SOURCE orders (id BIGINT, shop STRING, at TIMESTAMP, WATERMARK FOR at)
WITH (connector = 'kafka', brokers = 'broker:9092', topic = 'orders', format = 'json',
  unique_key = 'id, shop', unique_within = '1 hour');
CREATE MATERIALIZED VIEW v AS
SELECT window_start, COUNT(*) AS n FROM TUMBLE(orders, at, INTERVAL '1' MINUTE)
GROUP BY window_start, window_end
EMIT ON WINDOW CLOSE
WITH (side_output.late = 'reinject', side_output.reinject_to = 'late', side_output.error = 'kafka:errors',
  side_output.duplicate.include_original = false, side_output.max_rows_per_epoch = 1000);
