-- Whether rows wait above a number in the slots in a list, when the oldest there was written, when the next delayed one is due; no lock.
SELECT EXISTS (SELECT 1 FROM {event} WHERE status IN (0, 2) AND seq > $1 AND slot BETWEEN $2 AND $3 AND slot = ANY($4)),
    (SELECT created_at FROM {event} WHERE status IN (0, 2) AND seq > 0 AND slot BETWEEN $2 AND $3 AND slot = ANY($4) ORDER BY seq LIMIT 1),
    (SELECT available_at FROM {event} WHERE status IN (0, 2) AND lane = -1 ORDER BY available_at, seq LIMIT 1)
