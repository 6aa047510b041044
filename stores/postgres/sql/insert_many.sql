-- Adds rows in the order of the arrays; row locks of the caller's transaction only.
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
