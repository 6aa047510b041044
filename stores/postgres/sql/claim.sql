-- Claims rows that are due, but those of the queue, in order; locks the rows it takes, skips those that others have locked. Those that
-- do not fit into the bytes that may be loaded are left as they are; they come in the order of the rows before them.
WITH t AS MATERIALIZED (SELECT coalesce($1, clock_timestamp()) AS now, $6::bigint AS row_most, $7::bigint AS total),
due AS MATERIALIZED (
    SELECT seq, {counted} AS bytes, locked_at IS NOT NULL AS lapsed FROM {event} e, t
    WHERE status IN (0, 2) AND slot <> -2 AND available_at <= t.now AND (locked_until IS NULL OR locked_until <= t.now)
        AND ($2::bigint IS NULL OR created_at <= t.now - $2 * interval '1 microsecond')
    ORDER BY seq LIMIT $3 FOR UPDATE OF e SKIP LOCKED),
fitting AS (
    SELECT seq FROM (SELECT seq, sum(bytes) OVER (ROWS UNBOUNDED PRECEDING) - bytes AS before FROM due) d, t
    WHERE before < t.total),
taken AS (
    UPDATE {event} e
    SET locked_by = $4, locked_at = t.now, locked_until = t.now + $5 * interval '1 microsecond',
        lock_token = coalesce(lock_token, 0) + 1, attempts = attempts + (locked_at IS NULL)::integer
    FROM t WHERE e.seq = ANY (ARRAY(SELECT seq FROM fitting)) AND e.status IN (0, 2)
    RETURNING {taken_columns}, CASE WHEN {bytes} <= t.row_most THEN e.last_error END AS last_error, {bytes} AS bytes,
        e.seq = ANY (ARRAY(SELECT seq FROM due WHERE lapsed)) AS lapsed)
SELECT * FROM taken ORDER BY seq
