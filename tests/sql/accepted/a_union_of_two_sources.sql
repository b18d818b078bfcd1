CREATE MATERIALIZED VIEW out AS
SELECT window_start, k, SUM(x) AS s
FROM (SELECT region AS k, qty AS x, event_time AS t FROM sales WHERE vip
      UNION ALL SELECT region, amount, at FROM returns WHERE amount > 1)
GROUP BY k, TUMBLE(t, INTERVAL '1' MINUTE)
EMIT FINAL;
