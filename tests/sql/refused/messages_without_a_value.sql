CREATE SOURCE messages (ts TIMESTAMP METADATA FROM 'timestamp', WATERMARK FOR ts)
WITH (connector = 'kafka', brokers = 'b:9092', topic = 't', format = 'json');
CREATE MATERIALIZED VIEW v AS
SELECT window_start, COUNT(*) AS n FROM TUMBLE(messages, ts, INTERVAL '1' MINUTE) GROUP BY window_start, window_end;
