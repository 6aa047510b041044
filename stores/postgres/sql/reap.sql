-- Takes claims away that ran out before a time; locks the rows, skips those that others have locked.
-- When a claim was made stays, for the next claim.
WITH before AS MATERIALIZED (SELECT coalesce($1, clock_timestamp()) - $2 * interval '1 microsecond' AS at),
old AS MATERIALIZED (
    SELECT seq FROM {event} e, before WHERE e.status IN (0, 2) AND e.locked_until <= before.at
    ORDER BY seq LIMIT $3 FOR UPDATE OF e SKIP LOCKED),
back AS (
    UPDATE {event} e SET locked_by = NULL, locked_until = NULL FROM before
    WHERE e.seq = ANY (ARRAY(SELECT seq FROM old)) AND e.status IN (0, 2) AND e.locked_until <= before.at
    RETURNING 1)
SELECT count(*) FROM back
