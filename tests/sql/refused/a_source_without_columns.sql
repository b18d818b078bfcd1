CREATE SOURCE s WITH (connector = 'delta', path = 'x');
CREATE MATERIALIZED VIEW out AS
SELECT COUNT(*) AS n FROM s;
