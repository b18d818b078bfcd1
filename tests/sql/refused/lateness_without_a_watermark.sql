CREATE SOURCE unmarked (k STRING, at TIMESTAMP) WITH (connector = 'memory');
CREATE MATERIALIZED VIEW totals AS
SELECT window_start, k, COUNT(*) AS n FROM TUMBLE(unmarked, at, INTERVAL '1' MINUTE) GROUP BY window_start, window_end, k
ALLOW LATENESS INTERVAL '5' SECOND
EMIT CHANGES;
