-- No window: a customer's row changes with every payment, correction and cancellation, and goes with the last of them.
CREATE MATERIALIZED VIEW customer_balance AS
SELECT customer,
       COUNT(*) AS payments,
       COUNT(*) FILTER (WHERE amount < 0) AS refunds,
       SUM(amount) AS balance
FROM payments
GROUP BY customer
EMIT CHANGES
WITH (
    description = 'What each customer has paid, as of now.',
    group = 'finance', owners = 'team:finance', tags = 'tier=gold'
);
