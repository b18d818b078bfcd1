CREATE SOURCE s (a TIMESTAMP, WATERMARK FOR a) WITH (connector = 'memory', watermark_lag = '1 second');
CREATE MATERIALIZED VIEW out AS
SELECT COUNT(*) AS n FROM s;
