-- Whether rows wait above a number in these slots, when the oldest there was written, when the next delayed one is due; no lock.
SELECT EXISTS (SELECT 1 FROM {event} FORCE INDEX (pending) WHERE pending = 1 AND seq > ? AND ({slots})),
    (SELECT created_at FROM {event} FORCE INDEX (pending) WHERE pending = 1 AND seq > 0 AND ({slots}) ORDER BY seq LIMIT 1),
    (SELECT agenda_at FROM {event} FORCE INDEX (agenda) WHERE agenda = -1 AND agenda_at IS NOT NULL ORDER BY agenda_at LIMIT 1)
