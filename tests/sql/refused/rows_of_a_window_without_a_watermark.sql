CREATE SOURCE unmarked (k STRING, at TIMESTAMP) WITH (connector = 'memory');
CREATE MATERIALIZED VIEW totals AS SELECT window_start, k FROM TUMBLE(unmarked, at, INTERVAL '1' MINUTE) EMIT CHANGES;
