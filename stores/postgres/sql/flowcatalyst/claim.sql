-- Claims items in the order of group, time and id, those without a group first; locks the rows it takes, skips those
-- that others have locked. The time of the claim is its token: it is later with each claim.
WITH t AS MATERIALIZED (SELECT coalesce($1, clock_timestamp()) AT TIME ZONE 'UTC' AS now),
loose AS MATERIALIZED (
    SELECT id FROM {event} e, t
    WHERE status = 'PENDING' AND message_group IS NULL
        AND ($2::bigint IS NULL OR created_at <= t.now - $2 * interval '1 microsecond')
    ORDER BY created_at, id LIMIT $3 FOR UPDATE OF e SKIP LOCKED),
grouped AS MATERIALIZED (
    SELECT id FROM {event} e, t
    WHERE status = 'PENDING' AND message_group IS NOT NULL
        AND ($2::bigint IS NULL OR created_at <= t.now - $2 * interval '1 microsecond')
    ORDER BY message_group, created_at, id LIMIT $3 - (SELECT count(*) FROM loose) FOR UPDATE OF e SKIP LOCKED),
taken AS (
    UPDATE {event} e SET status = 'PROCESSING', processed_at = greatest(t.now, e.processed_at + interval '1 microsecond')
    FROM t WHERE e.id = ANY (ARRAY(SELECT id FROM loose UNION ALL SELECT id FROM grouped)) AND e.status || '' = 'PENDING'
    RETURNING {taken_columns})
SELECT * FROM taken ORDER BY message_group NULLS FIRST, created_at, id
