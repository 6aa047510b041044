-- Whether items wait, and when the first of them was written, if slot 0 is held; no lock.
SELECT first.at IS NOT NULL, first.at, NULL FROM (SELECT (
    SELECT created_at FROM {event} WHERE status = 'PENDING' AND EXISTS (SELECT 1 FROM (SELECT 0 AS slot) held WHERE {slots}) AND ? IS NOT NULL
    ORDER BY message_group, created_at, id LIMIT 1) AS at) first
