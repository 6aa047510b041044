-- Reading pending rows in order, the horizon of a read, and promoting rows that have become due.

-- name: fetch_slots
-- Pending rows of the slots in a mask and of the lanes in a list, above a number, without contents that are larger than a row may be; no lock.
SELECT {light_columns}, {left_out} FROM {event} INDEXED BY {event_pending}
WHERE status IN (0, 2) AND seq > ?2
    AND ((slot BETWEEN 0 AND 63 AND (?3 >> slot) & 1) OR slot IN (SELECT value FROM json_each(?4)))
ORDER BY seq LIMIT ?5

-- name: fetch_group
-- Pending rows of one group from a number on, without contents that are larger than a row may be; no lock.
SELECT {light_columns}, {left_out} FROM {event} INDEXED BY {event_pending}
WHERE status IN (0, 2) AND seq >= ?2 AND slot = ?3 AND group_key = ?4
ORDER BY seq LIMIT ?5

-- name: fetch_due
-- Pending rows that are due and under no live claim, but those of the queue, without contents that are larger than a row may be; no lock.
SELECT {light_columns}, {left_out}, locked_at IS NOT NULL AS lapsed FROM {event} INDEXED BY {event_pending}
WHERE status IN (0, 2) AND slot <> -2 AND (available_at <= ?2 OR typeof(available_at) = 'text')
    AND (created_at <= ?3 OR typeof(created_at) = 'text')
    AND (locked_until IS NULL OR locked_until <= ?2)
ORDER BY seq LIMIT ?4

-- name: sequence
-- The last number that was drawn; no lock.
SELECT seq FROM sqlite_sequence WHERE name = {event_name} COLLATE NOCASE

-- name: next_due
-- When the next delayed row is due; no lock.
SELECT min(available_at) FROM {event} INDEXED BY {event_delayed} WHERE status IN (0, 2) AND lane = -1

-- name: later_due
-- When the next delayed row after a time is due; no lock.
SELECT min(available_at) FROM {event} INDEXED BY {event_delayed} WHERE status IN (0, 2) AND lane = -1 AND available_at > ?1

-- name: promotable
-- Delayed rows that are due, by their time; under the write lock.
SELECT seq, group_key IS NOT NULL FROM {event} INDEXED BY {event_delayed}
WHERE status IN (0, 2) AND lane = -1 AND available_at <= ?1
ORDER BY available_at, seq LIMIT ?2

-- name: sequence_draw
-- Draws numbers so that no insert gets them; under the write lock.
UPDATE sqlite_sequence SET seq = seq + ?1 WHERE name = {event_name} COLLATE NOCASE

-- name: renumber
-- Moves one row to a new number and lane; under the write lock.
UPDATE {event} SET seq = ?2, lane = ?3 WHERE seq = ?1
