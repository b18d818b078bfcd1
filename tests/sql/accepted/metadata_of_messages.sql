CREATE SOURCE messages (v BIGINT, k STRING METADATA FROM 'key', source STRING METADATA FROM 'header:source',
    headers MAP<STRING, STRING> METADATA, ts TIMESTAMP METADATA FROM 'timestamp', WATERMARK FOR ts)
WITH (connector = 'kafka', brokers = 'b:9092', topic = 't', format = 'json', starting = 'latest', on_data_loss = 'skip',
    properties = 'client.properties');
CREATE MATERIALIZED VIEW v AS
SELECT window_start, k, source, SUM(v) AS total FROM TUMBLE(messages, ts, INTERVAL '1' MINUTE)
GROUP BY window_start, window_end, k, source
EMIT ON WINDOW CLOSE;
