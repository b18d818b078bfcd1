CREATE MATERIALIZED VIEW out AS
SELECT time_bucket(INTERVAL '15' MINUTE, event_time) AS b, COUNT(*) AS n
FROM sales
GROUP BY time_bucket(INTERVAL '15' MINUTE, event_time)
EMIT FINAL;
