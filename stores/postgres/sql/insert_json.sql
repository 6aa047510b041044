-- Adds rows from one parameter, a JSON array, in its order, for any driver; row locks of the caller's transaction only.
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
