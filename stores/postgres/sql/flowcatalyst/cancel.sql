-- Deletes items that nobody has claimed and records that; locks on the rows, by the caller's transaction.
WITH t AS MATERIALIZED (SELECT coalesce($2, clock_timestamp()) AS now),
gone AS (DELETE FROM {event} e WHERE e.id = ANY($1) AND e.status = 'PENDING' RETURNING e.id::text),
recorded AS (INSERT INTO {audit} (at, actor, action, target) SELECT t.now, $3, 'cancel', id FROM gone, t)
SELECT id FROM gone
