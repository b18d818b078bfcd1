CREATE MATERIALIZED VIEW big AS
SELECT region, amount FROM sales WHERE amount > 10;

CREATE SINK feed FROM big WITH (connector = 'kafka', brokers = 'localhost:9092', topic = 'big', mode = 'upsert');
