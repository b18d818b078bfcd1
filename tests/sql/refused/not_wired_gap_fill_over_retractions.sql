CREATE SOURCE edited (id BIGINT, at TIMESTAMP, WATERMARK FOR at)
WITH (connector = 'delta', path = 'edited', changes = 'cdf');
CREATE MATERIALIZED VIEW out AS
SELECT window_start, COUNT(*) AS n
FROM TUMBLE(edited, at, INTERVAL '1' MINUTE)
GROUP BY window_start, window_end
GAP FILL NULL EMIT FINAL;
