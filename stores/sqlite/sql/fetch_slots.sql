-- Pending rows of the slots in a mask and of the lanes in a list, above a number; no lock.
SELECT {columns} FROM {event} INDEXED BY {event_pending}
WHERE status IN (0, 2) AND seq > ?1
    AND ((slot BETWEEN 0 AND 63 AND (?2 >> slot) & 1) OR slot IN (SELECT value FROM json_each(?3)))
ORDER BY seq LIMIT ?4
