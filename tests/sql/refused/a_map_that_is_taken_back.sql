CREATE SOURCE edited (id BIGINT, tags MAP<STRING, INT>) WITH (connector = 'delta', path = 'edited', changes = 'cdf');
CREATE MATERIALIZED VIEW out AS SELECT id, tags FROM edited;
