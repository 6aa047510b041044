-- Rows: inserting them, reading pending rows in order, drawing sequence numbers, and promoting due rows.

-- name: insert
-- Inserts one row unless its message id exists; under the caller's write lock.
INSERT INTO {event} ({text_columns}, available_at, created_at, lane, occurred_at, due_at, expires_at, payload_bytes)
VALUES ({text_params}, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (message_id) WHERE message_id IS NOT NULL DO NOTHING

-- name: written
-- The row that has this message id; no lock.
SELECT event_id, seq, lane IS -1 FROM {event} WHERE message_id = ?1 AND message_id IS NOT NULL

-- name: fetch_slots
-- Pending rows of the slots in a mask and the lanes in a list, above a sequence number, without contents
-- above the size limit of a row; no lock.
SELECT {light_columns}, {left_out} FROM {event} INDEXED BY {event_pending}
WHERE {pending} AND seq > ?2
    AND ((slot BETWEEN 0 AND 63 AND (?3 >> slot) & 1) OR slot IN (SELECT value FROM json_each(?4)))
ORDER BY seq LIMIT ?5

-- name: fetch_group
-- Pending rows of one group from a sequence number on, without contents above the
-- size limit of a row; no lock.
SELECT {light_columns}, {left_out} FROM {event} INDEXED BY {event_pending}
WHERE {pending} AND seq >= ?2 AND slot = ?3 AND group_key = ?4
ORDER BY seq LIMIT ?5

-- name: fetch_due
-- Due rows outside the queue that have no live claim, without contents above the
-- size limit of a row; no lock.
SELECT {light_columns}, {left_out}, locked_at IS NOT NULL AS lapsed FROM {event} INDEXED BY {event_pending}
WHERE {pending} AND slot <> -2 AND (available_at <= ?2 OR typeof(available_at) = 'text')
    AND (created_at <= ?3 OR typeof(created_at) = 'text')
    AND (locked_until IS NULL OR locked_until <= ?2)
ORDER BY seq LIMIT ?4

-- name: sequence
-- The last sequence number that was drawn; no lock.
SELECT seq FROM sqlite_sequence WHERE name = {event_name} COLLATE NOCASE

-- name: next_due
-- When the next delayed row is due; no lock.
SELECT min(available_at) FROM {event} INDEXED BY {event_delayed} WHERE {pending} AND lane = -1

-- name: later_due
-- When the next delayed row after a time is due; no lock.
SELECT min(available_at) FROM {event} INDEXED BY {event_delayed} WHERE {pending} AND lane = -1 AND available_at > ?1

-- name: promotable
-- Due rows among the delayed ones, by due time; under the write lock.
SELECT seq, group_key IS NOT NULL FROM {event} INDEXED BY {event_delayed}
WHERE {pending} AND lane = -1 AND available_at <= ?1
ORDER BY available_at, seq LIMIT ?2

-- name: sequence_draw
-- Draws sequence numbers, so that no insert gets them; under the write lock.
UPDATE sqlite_sequence SET seq = seq + ?1 WHERE name = {event_name} COLLATE NOCASE

-- name: renumber
-- Moves one row to a new sequence number and lane; under the write lock.
UPDATE {event} SET seq = ?2, lane = ?3 WHERE seq = ?1
