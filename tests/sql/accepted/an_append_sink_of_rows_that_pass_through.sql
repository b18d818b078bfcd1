CREATE MATERIALIZED VIEW out AS
SELECT region, tags FROM sales WHERE amount > 10
WITH (sink = 'append');
