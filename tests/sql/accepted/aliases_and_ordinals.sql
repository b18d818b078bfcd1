CREATE MATERIALIZED VIEW out AS
SELECT window_start AS w, UPPER(s.region) AS r, SUM(amount) AS total, SUM(amount) / COUNT(*) AS mean
FROM TUMBLE(sales, event_time, INTERVAL '1' MINUTE) AS s
GROUP BY w, 2
HAVING total > 10 AND mean < 5
EMIT FINAL;
