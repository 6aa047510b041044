-- Pending rows of the slots in a mask and of the lanes in a list, above a number, without contents that are larger than a row may be; no lock.
SELECT {light_columns}, {left_out} FROM {event} INDEXED BY {event_pending}
WHERE status IN (0, 2) AND seq > ?2
    AND ((slot BETWEEN 0 AND 63 AND (?3 >> slot) & 1) OR slot IN (SELECT value FROM json_each(?4)))
ORDER BY seq LIMIT ?5
