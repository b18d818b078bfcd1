CREATE MATERIALIZED VIEW out AS
SELECT date_trunc('week', event_time) AS week, COUNT(*) AS n
FROM sales
GROUP BY date_trunc('WEEK', event_time)
EMIT FINAL;
