-- Deletes rows that were written before a time, whatever their status; locks the rows, skips those that others have
-- locked. The dead head of a blocked group and the steps of open joins stay.
WITH before AS MATERIALIZED (SELECT coalesce($2, clock_timestamp()) - $3 * interval '1 microsecond' AS at),
old AS MATERIALIZED (
    SELECT e.ctid FROM {event} e, before WHERE e.created_at < before.at
        AND NOT EXISTS (SELECT 1 FROM {group} g WHERE g.event_id = e.event_id)
        AND (e.joined IS NULL OR NOT EXISTS (
            SELECT 1 FROM {join_member} m JOIN {join} j ON j.join_id = m.join_id WHERE m.event_id = e.event_id AND j.status = 0))
    LIMIT $1 FOR UPDATE OF e SKIP LOCKED),
gone AS (
    DELETE FROM {event} e USING before WHERE e.ctid = ANY (ARRAY(SELECT ctid FROM old)) AND e.created_at < before.at
    RETURNING e.event_id),
forgotten AS (
    DELETE FROM {attempt} a WHERE EXISTS (SELECT 1 FROM {attempt}) AND a.event_id = ANY (ARRAY(SELECT event_id FROM gone)))
SELECT count(*) FROM gone
