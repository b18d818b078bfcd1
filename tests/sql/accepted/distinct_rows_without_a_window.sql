CREATE MATERIALIZED VIEW out AS
SELECT DISTINCT region, year(event_time) AS y FROM sales;
