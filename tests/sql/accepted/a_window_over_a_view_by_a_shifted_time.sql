CREATE MATERIALIZED VIEW first AS
SELECT window_start, window_end, COUNT(*) AS n FROM TUMBLE(sales, event_time, INTERVAL '1' MINUTE) GROUP BY window_start, window_end
EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW totals AS
SELECT window_start, SUM(n) AS n FROM TUMBLE(first, window_end - INTERVAL '1' SECOND, INTERVAL '1' HOUR) GROUP BY window_start, window_end
EMIT ON WINDOW CLOSE;
