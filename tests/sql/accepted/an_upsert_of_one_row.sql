CREATE MATERIALIZED VIEW total AS
SELECT COUNT(*) AS n, SUM(qty) AS pieces FROM sales EMIT CHANGES;

CREATE SINK current FROM total WITH (connector = 'delta', path = 'out', mode = 'upsert');
CREATE SINK feed FROM total WITH (connector = 'kafka', brokers = 'localhost:9092', topic = 'total', mode = 'upsert');
