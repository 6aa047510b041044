-- Claims items in the order of group, time and id, those without a group first; locks the rows it takes, skips those
-- that others have locked. Those that do not fit into the bytes that may be loaded are left as they are. The time of the claim is its token: it is later with each claim.
WITH t AS MATERIALIZED (SELECT coalesce($1, clock_timestamp()) AT TIME ZONE 'UTC' AS now, $4::bigint AS row_most, $5::bigint AS total),
loose AS MATERIALIZED (
    SELECT id, {counted} AS bytes FROM {event} e, t
    WHERE status = 'PENDING' AND message_group IS NULL
        AND ($2::bigint IS NULL OR created_at <= t.now - $2 * interval '1 microsecond')
    ORDER BY created_at, id LIMIT $3 FOR UPDATE OF e SKIP LOCKED),
grouped AS MATERIALIZED (
    SELECT id, {counted} AS bytes FROM {event} e, t
    WHERE status = 'PENDING' AND message_group IS NOT NULL
        AND ($2::bigint IS NULL OR created_at <= t.now - $2 * interval '1 microsecond')
    ORDER BY message_group, created_at, id LIMIT $3 - (SELECT count(*) FROM loose) FOR UPDATE OF e SKIP LOCKED),
fitting AS (
    SELECT id FROM (
        SELECT id, sum(bytes) OVER (ROWS UNBOUNDED PRECEDING) - bytes AS before
        FROM (SELECT id, bytes FROM loose UNION ALL SELECT id, bytes FROM grouped) found) f, t
    WHERE before < t.total),
taken AS (
    UPDATE {event} e SET status = 'PROCESSING', processed_at = greatest(t.now, e.processed_at + interval '1 microsecond')
    FROM t WHERE e.id = ANY (ARRAY(SELECT id FROM fitting)) AND e.status || '' = 'PENDING'
    RETURNING {taken_columns}, {bytes} AS bytes)
SELECT * FROM taken ORDER BY message_group NULLS FIRST, created_at, id
