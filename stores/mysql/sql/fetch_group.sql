-- Pending rows of one group from a number on; no lock.
SELECT {light_columns}, {now}, {left_out} FROM {event} FORCE INDEX (pending)
WHERE pending = 1 AND seq >= ? AND slot = ? AND {group_key} = ?
ORDER BY seq LIMIT ?
