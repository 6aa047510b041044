-- Deletes failed items and frees the groups behind them; locks the rows, their groups and the epoch.
WITH t AS MATERIALIZED (SELECT coalesce($8, clock_timestamp()) AS now),
found AS MATERIALIZED (SELECT id FROM {selected} AND status = 'FAILED' ORDER BY created_at, id LIMIT $7 FOR UPDATE),
gone AS (
    DELETE FROM {event} e WHERE e.id = ANY (ARRAY(SELECT id FROM found)) AND e.status = 'FAILED' RETURNING e.id, e.created_at),
freed AS (DELETE FROM {group} g USING gone WHERE g.event_id = gone.id AND g.state = 'blocked' RETURNING 1),
forgot AS (UPDATE {group} g SET event_id = NULL FROM gone WHERE g.event_id = gone.id AND g.state = 'paused' RETURNING 1),
recorded AS (
    INSERT INTO {audit} (at, actor, action, target)
    SELECT t.now, $9, 'discard', id FROM gone, t ORDER BY created_at, id),
behind AS (SELECT FROM freed UNION ALL SELECT FROM forgot),
grown AS (
    UPDATE {meta} SET value = value + (SELECT count(*) FROM behind)
    WHERE name = 'groups_epoch' AND EXISTS (SELECT 1 FROM behind))
SELECT count(*) FROM gone
