CREATE SOURCE lines (a STRING, b STRING, ts TIMESTAMP METADATA FROM 'timestamp', WATERMARK FOR ts)
WITH (connector = 'kafka', brokers = 'b:9092', topic = 't', format = 'text');
CREATE MATERIALIZED VIEW v AS
SELECT window_start, COUNT(*) AS n FROM TUMBLE(lines, ts, INTERVAL '1' MINUTE) GROUP BY window_start, window_end;
