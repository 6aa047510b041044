-- Gives items back that were claimed before a time, those without a time by when they were written; locks the rows, skips
-- those that others have locked. The time stays, so that the next claim has a later one.
WITH before AS MATERIALIZED (
    SELECT coalesce($1, clock_timestamp()) AT TIME ZONE 'UTC' - $2 * interval '1 microsecond' AS at),
old AS MATERIALIZED (
    SELECT id FROM {event} e, before WHERE e.status = 'PROCESSING' AND coalesce(e.processed_at, e.created_at) < before.at
    LIMIT $3 FOR UPDATE OF e SKIP LOCKED),
back AS (
    UPDATE {event} e SET status = 'PENDING' FROM before
    WHERE e.id = ANY (ARRAY(SELECT id FROM old)) AND e.status = 'PROCESSING' AND coalesce(e.processed_at, e.created_at) < before.at
    RETURNING 1)
SELECT count(*) FROM back
