-- Deletes rows of one status that ended before a time, unless one was replayed; locks the rows, skips those that others have locked.
WITH before AS MATERIALIZED (SELECT coalesce($3, clock_timestamp()) - $4 * interval '1 microsecond' AS at),
old AS MATERIALIZED (
    (SELECT e.ctid FROM {event} e, before WHERE e.status IN (1, 3) AND e.status = $1 AND e.done_at < before.at
    ORDER BY e.done_at LIMIT $2 FOR UPDATE OF e SKIP LOCKED)),
odd AS MATERIALIZED (
    SELECT e.ctid FROM {event} e, before WHERE e.status IN (1, 3) AND e.status = $1 AND e.done_at IS NULL AND e.created_at < before.at
    LIMIT $2 FOR UPDATE OF e SKIP LOCKED),
gone AS (
    DELETE FROM {event} e USING before
    WHERE e.ctid = ANY (ARRAY(SELECT ctid FROM (SELECT ctid FROM old UNION ALL SELECT ctid FROM odd) c LIMIT $2))
        AND e.status = $1 AND coalesce(e.done_at, e.created_at) < before.at
    RETURNING e.event_id),
forgotten AS (
    DELETE FROM {attempt} a WHERE EXISTS (SELECT 1 FROM {attempt}) AND a.event_id = ANY (ARRAY(SELECT event_id FROM gone)))
SELECT count(*) FROM gone
