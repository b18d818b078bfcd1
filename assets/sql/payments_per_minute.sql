-- Money in and money back per method. Sums of DECIMAL are exact.
CREATE MATERIALIZED VIEW payments_per_minute AS
SELECT window_start, window_end, method,
       COUNT(*) AS payments,
       COUNT(*) FILTER (WHERE amount < 0) AS refunds,
       SUM(amount) AS balance,
       MIN(amount) AS smallest,
       MAX(amount) AS largest
FROM TUMBLE(payments, event_time, INTERVAL '1' MINUTE)
GROUP BY window_start, window_end, method
ALLOW LATENESS INTERVAL '30' SECOND
EMIT ON WINDOW CLOSE;
