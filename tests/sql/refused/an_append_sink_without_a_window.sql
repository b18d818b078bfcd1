CREATE MATERIALIZED VIEW out AS
SELECT region, COUNT(*) AS n
FROM sales
GROUP BY region
WITH (sink = 'append');
