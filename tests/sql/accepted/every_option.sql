CREATE MATERIALIZED VIEW out AS
SELECT window_start, COUNT(*) AS n
FROM TUMBLE(sales, event_time, INTERVAL '1' MINUTE)
GROUP BY window_start, window_end
EMIT CHANGES
GAP FILL LINEAR
WITH (sink = 'changelog', partition = 'week', allowed_lateness = '1 minute 30 seconds', side_output.late = 'metrics_only',
  side_output.error = 'kafka:errors', side_output.brokers = 'broker:9092', on_null_event_time = 'fallback',
  max_groups_per_window = 3, owners = 'a@b.c');
