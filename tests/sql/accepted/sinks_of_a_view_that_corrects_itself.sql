CREATE SINK current FROM per_session WITH (connector = 'delta', path = 'out/current', mode = 'upsert');
CREATE SINK events FROM per_session WITH (connector = 'files', path = 'out/events', format = 'debezium');

CREATE MATERIALIZED VIEW per_session AS
SELECT window_start, window_end, region AS place, COUNT(*) AS n
FROM SESSION(sales, event_time, INTERVAL '1' MINUTE)
GROUP BY window_start, window_end, region
EMIT ON UPDATE;
