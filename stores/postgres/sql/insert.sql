-- Adds one row; row locks of the caller's transaction only.
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
