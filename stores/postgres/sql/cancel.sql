-- Deletes pending events that are under no live claim and records that; locks on the rows, by the caller's transaction, then on the
-- members and joins that lose a step.
WITH t AS MATERIALIZED (SELECT coalesce($2, clock_timestamp()) AS now),
gone AS (
    DELETE FROM {event} e USING t
    WHERE e.event_id = ANY($1) AND e.status IN (0, 2) AND (e.locked_until IS NULL OR e.locked_until <= t.now)
    RETURNING e.event_id, e.joined),
forgotten AS (DELETE FROM {attempt} a WHERE a.event_id = ANY (ARRAY(SELECT event_id FROM gone))),
recorded AS (INSERT INTO {audit} (at, actor, action, target) SELECT t.now, $3, 'cancel', event_id FROM gone, t),
lost AS MATERIALIZED (
    SELECT CASE WHEN EXISTS (SELECT 1 FROM gone WHERE joined) THEN
        {join_settle}(ARRAY[]::text[], ARRAY(SELECT event_id::text FROM gone WHERE joined), t.now) END AS fired FROM t)
SELECT gone.event_id, lost.fired FROM gone, lost
