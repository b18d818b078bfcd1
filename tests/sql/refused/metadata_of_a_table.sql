CREATE SOURCE stamped (k STRING METADATA FROM 'key', ts TIMESTAMP, WATERMARK FOR ts) WITH (connector = 'memory');
CREATE MATERIALIZED VIEW v AS
SELECT window_start, COUNT(*) AS n FROM TUMBLE(stamped, ts, INTERVAL '1' MINUTE) GROUP BY window_start, window_end;
