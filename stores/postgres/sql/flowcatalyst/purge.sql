-- Deletes items of one status that ended before a time, unless one was replayed; locks the rows, skips those that others have locked.
WITH before AS MATERIALIZED (
    SELECT coalesce($3, clock_timestamp()) AT TIME ZONE 'UTC' - $4 * interval '1 microsecond' AS at,
        CASE $1::smallint WHEN 1 THEN 'COMPLETED' ELSE 'FAILED' END AS status),
old AS MATERIALIZED (
    SELECT e.ctid FROM {event} e, before WHERE e.status = before.status AND coalesce(e.processed_at, e.created_at) < before.at
    LIMIT $2 FOR UPDATE OF e SKIP LOCKED),
gone AS (
    DELETE FROM {event} e USING before
    WHERE e.ctid = ANY (ARRAY(SELECT ctid FROM old)) AND e.status = before.status AND coalesce(e.processed_at, e.created_at) < before.at
    RETURNING 1)
SELECT count(*) FROM gone
