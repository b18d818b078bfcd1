CREATE MATERIALIZED VIEW totals AS
SELECT region, SUM(amount) AS total
FROM sales
GROUP BY region
;

CREATE SINK archive FROM totals WITH (connector = 'files', path = 'out', format = 'json');
