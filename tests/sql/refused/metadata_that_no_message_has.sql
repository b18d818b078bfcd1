CREATE SOURCE messages (v BIGINT, k STRING METADATA FROM 'keys', ts TIMESTAMP, WATERMARK FOR ts)
WITH (connector = 'kafka', brokers = 'b:9092', topic = 't', format = 'json');
CREATE MATERIALIZED VIEW v AS
SELECT window_start, COUNT(*) AS n FROM TUMBLE(messages, ts, INTERVAL '1' MINUTE) GROUP BY window_start, window_end;
