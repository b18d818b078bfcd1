CREATE MATERIALIZED VIEW out AS
SELECT window_start, COUNT(*) AS n
FROM TUMBLE(changes, event_time, INTERVAL '1' MINUTE)
GROUP BY window_start, window_end
EMIT CHANGES
WITH (on_null_event_time = 'fallback');
