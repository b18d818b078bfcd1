CREATE SOURCE messages (v BIGINT, ts STRING METADATA FROM 'timestamp', t TIMESTAMP, WATERMARK FOR t)
WITH (connector = 'kafka', brokers = 'b:9092', topic = 't', format = 'json');
CREATE MATERIALIZED VIEW v AS
SELECT window_start, COUNT(*) AS n FROM TUMBLE(messages, t, INTERVAL '1' MINUTE) GROUP BY window_start, window_end;
