CREATE MATERIALIZED VIEW out AS
SELECT window_start, window_end, region, SUM(amount) AS total, COUNT(*) AS n
FROM TUMBLE(sales, event_time, INTERVAL '1' MINUTE)
WHERE amount > 0
GROUP BY window_start, window_end, region
HAVING COUNT(*) > 1
ALLOW LATENESS INTERVAL '10' SECOND
EMIT ON WINDOW CLOSE
LATE DATA TO side_output
WITH (sink = 'append', partition = 'hour');
