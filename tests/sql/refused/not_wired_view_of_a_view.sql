CREATE MATERIALIZED VIEW first AS
SELECT window_start, COUNT(*) AS n FROM TUMBLE(sales, event_time, INTERVAL '1' MINUTE) GROUP BY window_start EMIT FINAL;
CREATE MATERIALIZED VIEW second AS
SELECT window_start, SUM(n) AS n FROM TUMBLE(first, window_start, INTERVAL '1' HOUR) GROUP BY window_start EMIT FINAL;
