-- Pending rows of one group from a number on; no lock.
SELECT {columns}, {now} FROM {event} FORCE INDEX (pending)
WHERE pending = 1 AND seq >= ? AND slot = ? AND {group_key} = ?
ORDER BY seq LIMIT ?
