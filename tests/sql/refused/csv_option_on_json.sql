CREATE SOURCE lines (k STRING, ts TIMESTAMP, WATERMARK FOR ts)
WITH (connector = 'files', path = 'landing', format = 'json', delimiter = ';');
CREATE MATERIALIZED VIEW out AS
SELECT window_start, COUNT(*) AS n
FROM TUMBLE(lines, ts, INTERVAL '1' MINUTE)
GROUP BY window_start, window_end
EMIT FINAL;
