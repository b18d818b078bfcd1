CREATE MATERIALIZED VIEW out AS
SELECT window_start, 'x FROM sales;
