-- Inserts rows, and finds rows whose message id exists already.

-- name: insert
-- Inserts one row; only row locks of the caller's transaction.
INSERT INTO {event} (event_id, event_type, aggregate_type, aggregate_id, tenant_id, available_at, created_at, lane, message_group,
    message_id, correlation_id, occurred_at, due_at, expires_at, headers, payload, payload_bytes)
SELECT $1, $2, $3, $4, $5, greatest(w.now, w.due), w.now,
    CASE WHEN $6::smallint = -2 THEN -2 WHEN w.due > w.now THEN -1 ELSE $6 END,
    $7, $8, $9, $10::timestamptz, w.due, w.expires, $15, $16, $17::bytea
FROM (SELECT t.now, coalesce($11::timestamptz, t.now + $12::bigint * interval '1 microsecond') AS due,
        coalesce($13::timestamptz, t.now + $14::bigint * interval '1 microsecond') AS expires
    FROM (SELECT coalesce($18::timestamptz, statement_timestamp()) AS now) t) w
{once}
RETURNING event_id, seq, lane

-- name: insert_many
-- Inserts rows in the order of the arrays; only row locks of the caller's transaction.
INSERT INTO {event} (event_id, event_type, aggregate_type, aggregate_id, tenant_id, available_at, created_at, lane, message_group,
    message_id, correlation_id, occurred_at, due_at, expires_at, headers, payload, payload_bytes)
SELECT w.event_id, w.event_type, w.aggregate_type, w.aggregate_id, w.tenant_id, greatest(w.now, w.due), w.now,
    CASE WHEN w.lane = -2 THEN -2 WHEN w.due > w.now THEN -1 ELSE w.lane END,
    w.message_group, w.message_id, w.correlation_id, w.occurred_at, w.due, w.expires, w.headers, w.payload, w.payload_bytes
FROM (SELECT r.*, t.now, coalesce(r.due_at, t.now + r.due_in * interval '1 microsecond') AS due,
        coalesce(r.expires_at, t.now + r.expires_in * interval '1 microsecond') AS expires
    FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::smallint[], $7::text[], $8::text[], $9::text[],
            $10::timestamptz[], $11::timestamptz[], $12::bigint[], $13::timestamptz[], $14::bigint[], $15::text[], $16::text[],
            $17::bytea[])
        AS r (event_id, event_type, aggregate_type, aggregate_id, tenant_id, lane, message_group, message_id, correlation_id,
            occurred_at, due_at, due_in, expires_at, expires_in, headers, payload, payload_bytes),
        (SELECT coalesce($18::timestamptz, statement_timestamp()) AS now) t) w
{once}
RETURNING event_id, seq, lane

-- name: insert_json
-- Inserts rows from one parameter, a JSON array, in its order, for any driver; only row
-- locks of the caller's transaction.
INSERT INTO {event} (event_id, event_type, aggregate_type, aggregate_id, tenant_id, available_at, created_at, lane, message_group,
    message_id, correlation_id, occurred_at, due_at, expires_at, headers, payload, payload_bytes)
SELECT w.event_id, w.event_type, w.aggregate_type, w.aggregate_id, w.tenant_id, greatest(w.now, w.due), w.now,
    CASE WHEN w.lane = -2 THEN -2 WHEN w.due > w.now THEN -1 ELSE w.lane END,
    w.message_group, w.message_id, w.correlation_id, w.occurred_at, w.due, w.expires, w.headers, w.payload, w.payload_bytes
FROM (SELECT r.*, t.now, coalesce(r.due_at, t.now + r.due_in * interval '1 microsecond') AS due,
        coalesce(r.expires_at, t.now + r.expires_in * interval '1 microsecond') AS expires
    FROM json_to_recordset($1::text::json)
        AS r (event_id text, event_type text, aggregate_type text, aggregate_id text, tenant_id text, lane smallint, message_group text,
            message_id text, correlation_id text, occurred_at timestamptz, due_at timestamptz, due_in bigint, expires_at timestamptz,
            expires_in bigint, headers text, payload text, payload_bytes bytea),
        (SELECT statement_timestamp() AS now) t) w
{once}

-- name: written
-- The rows that have these message ids; no lock.
SELECT event_id, seq, lane, message_id FROM {event} WHERE message_id = ANY($1) AND message_id IS NOT NULL

-- name: alive
-- Fails if the transaction can only be rolled back; no lock.
SELECT 1

-- name: notify
-- Notifies other processes of new rows. Never runs in a writer's transaction, and does not wait for the disk.
SELECT pg_notify($1, ''), set_config('synchronous_commit', 'off', true)
