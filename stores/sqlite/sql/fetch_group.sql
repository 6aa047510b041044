-- Pending rows of one group from a number on, without contents that are larger than a row may be; no lock.
SELECT {light_columns}, {left_out} FROM {event} INDEXED BY {event_pending}
WHERE status IN (0, 2) AND seq >= ?2 AND slot = ?3 AND group_key = ?4
ORDER BY seq LIMIT ?5
