-- Inserting rows, and finding rows by message id.

-- name: insert
-- Inserts one row unless its message id exists; under the caller's write lock.
INSERT INTO {event} ({text_columns}, available_at, created_at, lane, occurred_at, due_at, expires_at, payload_bytes)
VALUES ({text_params}, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (message_id) WHERE message_id IS NOT NULL DO NOTHING

-- name: written
-- The row that has this message id; no lock.
SELECT event_id, seq, lane IS -1 FROM {event} WHERE message_id = ?1 AND message_id IS NOT NULL
