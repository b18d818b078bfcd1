-- Where the shop's events come from. Every file in this folder sees these sources.
-- Paths are relative to the project; assets/generator.py writes demo events there.

-- A directory that a till system drops JSON lines into. Each new file is one commit.
CREATE SOURCE sales (
    sale_id    BIGINT,
    region     STRING,
    product    STRING,
    quantity   INT,
    price      DECIMAL(10, 2),
    event_time TIMESTAMP,
    -- Sales are at most half a minute out of order, most of the time.
    WATERMARK FOR event_time AS event_time - INTERVAL '30' SECOND
) WITH (connector = 'files', format = 'json', path = 'data/landing/sales', max_future_skew = '5 minutes');

-- The web server's log of pages, as CSV.
CREATE SOURCE clicks (
    visitor    STRING,
    page       STRING,
    event_time TIMESTAMP,
    WATERMARK FOR event_time AS event_time - INTERVAL '1' MINUTE
) WITH (connector = 'files', format = 'csv', path = 'data/landing/clicks', max_future_skew = '5 minutes');

-- The bank's Delta table: payments are corrected and cancelled there, and the change feed says so.
CREATE SOURCE payments (
    payment_id BIGINT,
    customer   STRING,
    method     STRING,
    amount     DECIMAL(12, 2),
    event_time TIMESTAMP,
    WATERMARK FOR event_time AS event_time - INTERVAL '10' SECOND
) WITH (connector = 'delta', path = 'data/landing/payments', changes = 'cdf', max_future_skew = '5 minutes');
