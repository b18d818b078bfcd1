CREATE MATERIALIZED VIEW out AS
SELECT window_start, UPPER(region) WITHIN GROUP (ORDER BY qty) AS r
FROM TUMBLE(sales, event_time, INTERVAL '1' MINUTE) GROUP BY window_start, window_end EMIT FINAL;
