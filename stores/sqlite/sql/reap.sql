-- Takes the lock off pending rows whose claim ended before a time; under the write lock. When it was made stays, for the next claim.
UPDATE {event} SET locked_by = NULL, locked_until = NULL
WHERE seq IN (SELECT seq FROM {event} INDEXED BY {event_pending} WHERE status IN (0, 2) AND locked_until <= ?1 ORDER BY seq LIMIT ?2)
