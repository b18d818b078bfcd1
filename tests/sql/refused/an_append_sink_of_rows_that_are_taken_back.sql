CREATE SOURCE edited (id BIGINT) WITH (connector = 'delta', path = 'edited', changes = 'cdf');
CREATE MATERIALIZED VIEW out AS SELECT id FROM edited WITH (sink = 'append');
