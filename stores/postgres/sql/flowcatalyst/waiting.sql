-- Whether items wait, and when the first of them was written, if slot 0 is in the list; no lock.
SELECT first.at IS NOT NULL, first.at AT TIME ZONE 'UTC', NULL::timestamptz
FROM (SELECT coalesce(
        (SELECT created_at FROM {event} WHERE status = 'PENDING' AND message_group IS NULL ORDER BY created_at LIMIT 1),
        (SELECT created_at FROM {event} WHERE status = 'PENDING' AND message_group IS NOT NULL
            ORDER BY message_group, created_at LIMIT 1)) AS at
    WHERE 0 = ANY($4::smallint[])) held
    RIGHT JOIN (SELECT 1) one ON true, LATERAL (SELECT held.at) first
