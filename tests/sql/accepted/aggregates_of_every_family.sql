CREATE MATERIALIZED VIEW out AS
SELECT window_start, COUNT(DISTINCT region, qty) AS a, AVG(DISTINCT price) AS b, STD(amount) AS c, CORR(amount, qty) AS d,
       EVERY(vip) AS e, BIT_OR(qty) AS f, FIRST_VALUE(region) FILTER (WHERE vip) AS g, MAX_BY(region, price) AS h,
       ARRAY_AGG(region ORDER BY qty DESC, price NULLS LAST) AS i, MIN(DISTINCT qty) AS j,
       LISTAGG(region, '{, }') WITHIN GROUP (ORDER BY event_time) FILTER (WHERE qty > 1) AS k,
       APPROX_COUNT_DISTINCT(sold_on) AS l, APPROX_PERCENTILE(price, 0.9, 1000) AS m, MEDIAN(qty) AS n, MODE(region) AS o,
       HISTOGRAM(amount, 10) AS p
FROM TUMBLE(sales, event_time, INTERVAL '1' MINUTE)
GROUP BY window_start, window_end
EMIT FINAL;
