CREATE MATERIALIZED VIEW big AS SELECT region, amount FROM changes WHERE amount > 10;

CREATE SINK archive FROM big WITH (connector = 'files', path = 'out', format = 'parquet');
