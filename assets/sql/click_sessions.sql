-- A visit ends when its visitor has looked at nothing for two minutes.
CREATE MATERIALIZED VIEW click_sessions AS
SELECT window_start, window_end, visitor,
       COUNT(*) AS pages,
       COUNT(*) FILTER (WHERE page = '/checkout') AS checkouts,
       LAST(page) AS left_at
FROM SESSION(clicks, event_time, INTERVAL '2' MINUTES)
GROUP BY window_start, window_end, visitor
ALLOW LATENESS INTERVAL '1' MINUTE
EMIT ON WINDOW CLOSE
WITH (
    description = 'Visits to the web shop, and where they ended.',
    group = 'web', owners = 'team:web', tags = 'tier=silver'
);
