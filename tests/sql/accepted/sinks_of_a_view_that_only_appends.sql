CREATE MATERIALIZED VIEW per_minute AS
SELECT window_start, window_end, region, SUM(amount) AS total
FROM TUMBLE(sales, event_time, INTERVAL '1' MINUTE)
GROUP BY window_start, window_end, region
EMIT ON WINDOW CLOSE;

CREATE SINK archive FROM per_minute WITH (connector = 'files', path = 'out/archive', format = 'parquet');
CREATE SINK current FROM Per_Minute WITH (connector = 'delta', path = 'out/current', mode = 'upsert', key = 'window_start, REGION');
CREATE SINK history FROM per_minute WITH (connector = 'delta', path = 'out/history', mode = 'changelog');
