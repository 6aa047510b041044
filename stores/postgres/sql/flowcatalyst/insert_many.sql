-- Adds items; row locks of the caller's transaction only. Takes the parameters of the native statement.
INSERT INTO {event} (id, type, message_group, payload, status, retry_count, created_at)
SELECT r.id, r.type, coalesce(r.message_group, r.aggregate_type || '/' || r.aggregate_id), r.payload, 'PENDING', 0,
    coalesce($18::timestamptz, statement_timestamp()) AT TIME ZONE 'UTC'
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $7::text[], $16::text[])
    AS r (id, type, aggregate_type, aggregate_id, message_group, payload)
{once}
RETURNING id::text, 0::bigint, NULL::smallint
