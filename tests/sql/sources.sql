CREATE SOURCE sales (
    sale_id BIGINT, region STRING, amount DOUBLE, price DECIMAL(10,2), qty INT, vip BOOLEAN,
    sold_on DATE, event_time TIMESTAMP, tags MAP<STRING,INT>,
    WATERMARK FOR event_time AS event_time - INTERVAL '5' SECOND
) WITH (connector = 'delta', path = 'data/sales', idle_timeout = '1 minute');
CREATE SOURCE returns (id INT, region STRING, amount DOUBLE, at TIMESTAMP, WATERMARK FOR at)
WITH (connector = 'memory');
CREATE SOURCE changes (region STRING, amount DOUBLE, event_time TIMESTAMP, WATERMARK FOR event_time)
WITH (connector = 'delta', path = 'data/changes', changes = 'cdf');
CREATE SOURCE clicks (page STRING, event_time TIMESTAMP) WITH (connector = 'memory');
