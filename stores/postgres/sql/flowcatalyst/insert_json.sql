-- Adds items from one parameter, a JSON array, for any driver; row locks of the caller's transaction only.
INSERT INTO {event} (id, type, message_group, payload, status, retry_count, created_at)
SELECT r.event_id, r.event_type, coalesce(r.message_group, r.aggregate_type || '/' || r.aggregate_id), r.payload, 'PENDING', 0,
    statement_timestamp() AT TIME ZONE 'UTC'
FROM json_to_recordset($1::text::json)
    AS r (event_id text, event_type text, aggregate_type text, aggregate_id text, message_group text, payload text)
{once}
