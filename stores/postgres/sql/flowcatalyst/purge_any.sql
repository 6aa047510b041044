-- Deletes items that were written before a time, whatever their status; locks the rows, skips those that others have locked.
WITH before AS MATERIALIZED (SELECT coalesce($2, clock_timestamp()) AT TIME ZONE 'UTC' - $3 * interval '1 microsecond' AS at),
old AS MATERIALIZED (SELECT e.ctid FROM {event} e, before WHERE e.created_at < before.at LIMIT $1 FOR UPDATE OF e SKIP LOCKED),
gone AS (
    DELETE FROM {event} e USING before WHERE e.ctid = ANY (ARRAY(SELECT ctid FROM old)) AND e.created_at < before.at RETURNING 1)
SELECT count(*) FROM gone
