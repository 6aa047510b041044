-- Inserting rows, and finding rows by message id or event id.

-- name: insert
-- Inserts rows in the given order; locks only the new rows, in the caller's transaction.
INSERT INTO {event} ({text_columns}, occurred_at, created_at, due_at, expires_at, available_at, lane, payload_bytes) VALUES {rows}

-- name: written
-- Rows that have these message ids, in their latest state; share locks on the rows, in
-- the caller's transaction.
SELECT event_id, seq, lane, message_id FROM {event} FORCE INDEX (message_id) WHERE message_id IN ({ids}) LOCK IN SHARE MODE

-- name: written_ids
-- Rows that have these event ids; no lock.
SELECT event_id, seq, lane FROM {event} FORCE INDEX (event_id) WHERE event_id IN ({ids})

-- name: alive
-- Fails on a lost connection; no lock.
SELECT 1
