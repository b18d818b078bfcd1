CREATE SOURCE edited (id BIGINT, name STRING) WITH (connector = 'delta', path = 'edited', changes = 'cdf');
CREATE MATERIALIZED VIEW out AS SELECT name FROM edited WHERE id > 0;
