CREATE SOURCE orders (id BIGINT, shop STRING, at TIMESTAMP, WATERMARK FOR at)
WITH (connector = 'memory', unique_key = 'id', unique_within = '1 hour');
CREATE MATERIALIZED VIEW v AS SELECT id, shop FROM orders;
