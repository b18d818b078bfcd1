-- Where events come from. Every file in this folder sees these sources.
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

-- A Delta table that somebody appends to. Each version is one commit. A refund is a negative amount.
CREATE SOURCE payments (
    payment_id BIGINT,
    method     STRING,
    amount     DECIMAL(12, 2),
    event_time TIMESTAMP,
    WATERMARK FOR event_time AS event_time - INTERVAL '10' SECOND
) WITH (connector = 'delta', path = 'data/landing/payments', max_future_skew = '5 minutes');
