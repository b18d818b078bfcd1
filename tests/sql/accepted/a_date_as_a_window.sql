CREATE MATERIALIZED VIEW out AS
SELECT DATE(event_time) AS day, YEAR(DATE(event_time)) AS y, region, COUNT(*) AS n
FROM sales
GROUP BY DATE(event_time), region
EMIT FINAL;
