CREATE SOURCE readings (sensor STRING, ts BIGINT, WATERMARK FOR ts) WITH (connector = 'memory');
CREATE MATERIALIZED VIEW out AS SELECT COUNT(*) AS n FROM TUMBLE(readings, ts, INTERVAL '1' HOUR) GROUP BY window_start;
