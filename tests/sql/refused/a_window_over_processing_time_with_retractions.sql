CREATE SOURCE taps (page STRING) WITH (connector = 'memory', changes = 'cdf');
CREATE MATERIALIZED VIEW out AS
SELECT window_start, COUNT(*) AS n
FROM TUMBLE(taps, INTERVAL '1' MINUTE)
GROUP BY window_start, window_end
EMIT CHANGES;
