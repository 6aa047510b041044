-- Brings failed items back, oldest first, and frees the groups behind them; locks the rows, their groups and the epoch.
-- Their time stays, so that the next claim has a later one.
WITH t AS MATERIALIZED (SELECT coalesce($8, clock_timestamp()) AS now),
found AS MATERIALIZED (SELECT id, created_at FROM {selected} AND status = 'FAILED' ORDER BY created_at, id LIMIT $7 FOR UPDATE),
freed AS (DELETE FROM {group} g USING found WHERE g.event_id = found.id AND g.state = 'blocked' RETURNING 1),
forgot AS (UPDATE {group} g SET event_id = NULL FROM found WHERE g.event_id = found.id AND g.state = 'paused' RETURNING 1),
heads AS MATERIALIZED (SELECT FROM freed UNION ALL SELECT FROM forgot),
revived AS (
    UPDATE {event} e SET status = 'PENDING', retry_count = 0, error_message = NULL
    WHERE e.id = ANY (ARRAY(SELECT id FROM found)) AND e.status = 'FAILED' RETURNING e.id, e.created_at),
recorded AS (
    INSERT INTO {audit} (at, actor, action, target)
    SELECT t.now, $9, 'replay', id FROM revived, t ORDER BY created_at, id),
grown AS (
    UPDATE {meta} SET value = value + (SELECT count(*) FROM heads)
    WHERE name = 'groups_epoch' AND EXISTS (SELECT 1 FROM heads))
SELECT count(*) FROM revived
