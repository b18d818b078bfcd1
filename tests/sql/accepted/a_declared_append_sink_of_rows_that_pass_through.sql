CREATE MATERIALIZED VIEW big AS SELECT region, amount, event_time FROM sales WHERE amount > 10;

CREATE SINK archive FROM big WITH (connector = 'files', path = 'out', format = 'parquet');
