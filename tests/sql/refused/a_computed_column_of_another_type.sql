CREATE SOURCE orders (id BIGINT, day DATE AS id * 2) WITH (connector = 'memory');
CREATE MATERIALIZED VIEW out AS SELECT id, day FROM orders;
