-- Inserting rows, and finding rows by message id.

-- name: insert
-- Inserts one row unless its message id exists; under the caller's write lock.
INSERT INTO {event} (event_id, event_type, aggregate_type, aggregate_id, tenant_id, available_at, created_at, lane, message_group,
    message_id, correlation_id, occurred_at, due_at, expires_at, headers, payload, payload_bytes)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)
ON CONFLICT (message_id) WHERE message_id IS NOT NULL DO NOTHING

-- name: written
-- The row that has this message id; no lock.
SELECT event_id, seq, lane IS -1 FROM {event} WHERE message_id = ?1 AND message_id IS NOT NULL
