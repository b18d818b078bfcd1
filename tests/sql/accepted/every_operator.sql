CREATE MATERIALIZED VIEW out AS
SELECT window_start, COUNT(*) AS n
FROM TUMBLE(sales, event_time, INTERVAL '1' MINUTE)
WHERE event_time > '2026-01-01' AND sold_on >= '2026-01-01' AND event_time < TIMESTAMP '2027-01-01 00:00:00'
  AND event_time + INTERVAL '5' MINUTE > event_time - INTERVAL 3 HOURS AND region IS DISTINCT FROM 'a'
  AND region IS NOT DISTINCT FROM 'b' AND vip IS TRUE AND qty::STRING || region <> 'x' AND NOT vip
  AND CAST(qty AS DOUBLE) > 1.5e3 AND -qty < -5 AND qty % 2 = 0 AND region LIKE 'a%' AND region NOT LIKE '%b'
  AND qty IN (1, 2) AND qty NOT IN (3) AND qty BETWEEN 1 AND 9 AND region IS NOT NULL AND price IS NULL
  AND CASE qty WHEN 1 THEN vip ELSE NOT vip END
GROUP BY window_start, window_end
EMIT FINAL;
