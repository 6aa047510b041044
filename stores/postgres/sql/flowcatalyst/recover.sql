-- Gives items back that were claimed before a time, or all, but for those that the leader has in hand, if the node leads; share
-- locks on its row and on the slot of leadership, locks on the rows, skips those that others have locked.
WITH before AS MATERIALIZED (
    SELECT coalesce($1, clock_timestamp()) AT TIME ZONE 'UTC' - $3 * interval '1 microsecond' AS at),
me AS MATERIALIZED (
    SELECT 1 FROM {node} n, {slot} s WHERE n.node_id = $2 AND s.slot = 0 AND s.holder = n.node_id
    FOR KEY SHARE OF n FOR SHARE OF s),
old AS MATERIALIZED (
    SELECT id FROM {event} e, before
    WHERE EXISTS (SELECT 1 FROM me) AND e.status = 'PROCESSING'
        AND ($3::bigint = 0 OR coalesce(e.processed_at, e.created_at) < before.at)
        AND e.id NOT IN (SELECT unnest($4::text[]))
    LIMIT $5 FOR UPDATE OF e SKIP LOCKED),
back AS (
    UPDATE {event} e SET status = 'PENDING' FROM before
    WHERE e.id = ANY (ARRAY(SELECT id FROM old)) AND e.status = 'PROCESSING'
        AND ($3 = 0 OR coalesce(e.processed_at, e.created_at) < before.at)
    RETURNING 1)
SELECT count(*) FROM back
