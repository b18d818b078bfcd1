CREATE MATERIALIZED VIEW out AS
SELECT window_start, SUM(qty) AS a, SUM(qty) FILTER (WHERE vip) AS b, SUM(qty) + 1 AS c, AVG(price * 2) AS d, MIN(sold_on) AS e
FROM TUMBLE(sales, event_time, INTERVAL '1' MINUTE)
GROUP BY window_start, window_end
HAVING SUM(qty) > 3
EMIT FINAL;
