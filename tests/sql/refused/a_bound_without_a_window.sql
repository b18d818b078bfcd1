CREATE MATERIALIZED VIEW out AS
SELECT window_start, COUNT(*) AS n FROM sales GROUP BY window_start;
