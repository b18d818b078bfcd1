CREATE MATERIALIZED VIEW out AS
SELECT window_start, MEDIAN(amount) AS m
FROM TUMBLE(changes, event_time, INTERVAL '1' MINUTE)
GROUP BY window_start, window_end
EMIT FINAL;
