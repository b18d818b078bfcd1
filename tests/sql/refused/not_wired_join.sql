CREATE MATERIALIZED VIEW out AS
SELECT region, COUNT(*) AS n
FROM sales JOIN returns ON sales.region = returns.region
GROUP BY region
EMIT FINAL;
