CREATE SOURCE edited (id BIGINT, name STRING) WITH (connector = 'delta', path = 'edited', changes = 'cdf');
CREATE MATERIALIZED VIEW out AS SELECT id, FIRST(name) AS earliest FROM edited GROUP BY id;
