-- Adds one item; row locks of the caller's transaction only. Takes the parameters of the native statement.
INSERT INTO {event} (id, type, message_group, payload, status, retry_count, created_at)
SELECT $1, $2, coalesce($7, $3 || '/' || $4), $16, 'PENDING', 0,
    coalesce($18::timestamptz, statement_timestamp()) AT TIME ZONE 'UTC'
{once}
RETURNING id::text, 0::bigint, NULL::smallint
