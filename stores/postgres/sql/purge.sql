-- Deletes rows of one status that ended before a time, unless one was replayed, and with done ones the joins that ended before it;
-- locks the rows and the joins, skips those that others have locked. The dead head of a blocked group
-- and the steps of open joins stay.
WITH before AS MATERIALIZED (SELECT coalesce($3, clock_timestamp()) - $4 * interval '1 microsecond' AS at),
old AS MATERIALIZED (
    (SELECT e.ctid FROM {event} e, before WHERE e.status IN (1, 3) AND e.status = $1 AND e.done_at < before.at
        AND ($1 = 1 OR NOT EXISTS (SELECT 1 FROM {group} g WHERE g.event_id = e.event_id))
        AND (e.joined IS NULL OR NOT EXISTS (
            SELECT 1 FROM {join_member} m JOIN {join} j ON j.join_id = m.join_id WHERE m.event_id = e.event_id AND j.status = 0))
    ORDER BY e.done_at LIMIT $2 FOR UPDATE OF e SKIP LOCKED)),
odd AS MATERIALIZED (
    SELECT e.ctid FROM {event} e, before WHERE e.status IN (1, 3) AND e.status = $1 AND e.done_at IS NULL AND e.created_at < before.at
        AND ($1 = 1 OR NOT EXISTS (SELECT 1 FROM {group} g WHERE g.event_id = e.event_id))
        AND (e.joined IS NULL OR NOT EXISTS (
            SELECT 1 FROM {join_member} m JOIN {join} j ON j.join_id = m.join_id WHERE m.event_id = e.event_id AND j.status = 0))
    LIMIT $2 FOR UPDATE OF e SKIP LOCKED),
gone AS (
    DELETE FROM {event} e USING before
    WHERE e.ctid = ANY (ARRAY(SELECT ctid FROM (SELECT ctid FROM old UNION ALL SELECT ctid FROM odd) c LIMIT $2))
        AND e.status = $1 AND coalesce(e.done_at, e.created_at) < before.at
    RETURNING e.event_id),
forgotten AS (
    DELETE FROM {attempt} a WHERE EXISTS (SELECT 1 FROM {attempt}) AND a.event_id = ANY (ARRAY(SELECT event_id FROM gone))),
ended AS MATERIALIZED (
    SELECT j.join_id FROM {join} j, before WHERE $1 = 1 AND j.status <> 0 AND j.updated_at < before.at
    ORDER BY j.created_at, j.join_id LIMIT $2 FOR UPDATE OF j SKIP LOCKED),
cleared AS (
    DELETE FROM {join} j USING before
    WHERE j.join_id = ANY (ARRAY(SELECT join_id FROM ended)) AND j.status <> 0 AND j.updated_at < before.at
    RETURNING j.join_id),
left_over AS (DELETE FROM {join_member} m WHERE m.join_id = ANY (ARRAY(SELECT join_id FROM cleared)))
SELECT count(*) FROM gone
