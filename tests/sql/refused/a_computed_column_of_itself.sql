CREATE SOURCE orders (id BIGINT, twice AS twice * 2) WITH (connector = 'memory');
CREATE MATERIALIZED VIEW out AS SELECT id, twice FROM orders;
