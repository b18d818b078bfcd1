CREATE SOURCE readings (sensor STRING, ts TIMESTAMP, WATERMARK FOR ts) WITH (connector = 'memory', event_time_unit = 'ms');
CREATE MATERIALIZED VIEW out AS SELECT COUNT(*) AS n FROM TUMBLE(readings, ts, INTERVAL '1' HOUR) GROUP BY window_start;
