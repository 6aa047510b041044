-- Deletes dead events and frees the groups behind them; locks the rows, their groups and the epoch.
WITH t AS MATERIALIZED (SELECT coalesce($8, clock_timestamp()) AS now),
found AS MATERIALIZED (SELECT seq, event_id FROM {selected} AND status = 3 ORDER BY seq LIMIT $7 FOR UPDATE),
gone AS (
    DELETE FROM {event} e WHERE e.event_id = ANY (ARRAY(SELECT event_id FROM found)) AND e.status = 3 RETURNING e.seq, e.event_id),
forgotten AS (DELETE FROM {attempt} a WHERE a.event_id = ANY (ARRAY(SELECT event_id FROM gone))),
freed AS (DELETE FROM {group} g USING gone WHERE g.event_id = gone.event_id AND g.state = 'blocked' RETURNING 1),
forgot AS (
    UPDATE {group} g SET event_id = NULL FROM gone WHERE g.event_id = gone.event_id AND g.state = 'paused' RETURNING 1),
recorded AS (
    INSERT INTO {audit} (at, actor, action, target)
    SELECT t.now, $9, 'discard', event_id FROM gone, t ORDER BY seq),
behind AS (SELECT FROM freed UNION ALL SELECT FROM forgot),
grown AS (
    UPDATE {meta} SET value = value + (SELECT count(*) FROM behind)
    WHERE name = 'groups_epoch' AND EXISTS (SELECT 1 FROM behind))
SELECT count(*) FROM gone
