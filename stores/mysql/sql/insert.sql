-- Adding rows, and finding those whose message id is there already.

-- name: insert
-- Adds rows in the order given; row locks of the caller's transaction only.
INSERT INTO {event} (event_id, event_type, aggregate_type, aggregate_id, tenant_id, created_at, due_at, expires_at, available_at, lane,
    message_group, message_id, correlation_id, occurred_at, headers, payload, payload_bytes) VALUES {rows}

-- name: written
-- The rows that have these message ids, as they are now; share locks on them, in the caller's transaction.
SELECT event_id, seq, lane, message_id FROM {event} FORCE INDEX (message_id) WHERE message_id IN ({ids}) LOCK IN SHARE MODE

-- name: written_ids
-- The rows that have these ids; no lock.
SELECT event_id, seq, lane FROM {event} FORCE INDEX (event_id) WHERE event_id IN ({ids})

-- name: alive
-- Fails on a connection that is gone; no lock.
SELECT 1
