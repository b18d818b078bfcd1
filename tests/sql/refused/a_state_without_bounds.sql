CREATE MATERIALIZED VIEW out AS
SELECT region, SUM(amount) AS total
FROM sales
GROUP BY region
WITH (unbounded_state = 'refuse');
