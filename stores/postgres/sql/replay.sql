-- Brings dead events back, oldest first, a blocking one in its place; locks the rows, their groups and the epoch.
WITH t AS MATERIALIZED (SELECT coalesce($8, clock_timestamp()) AS now),
found AS MATERIALIZED (SELECT seq, event_id, lane FROM {selected} AND status = 3 ORDER BY seq LIMIT $7 FOR UPDATE),
freed AS (DELETE FROM {group} g USING found WHERE g.event_id = found.event_id AND g.state = 'blocked' RETURNING g.event_id),
forgot AS (
    UPDATE {group} g SET event_id = NULL FROM found WHERE g.event_id = found.event_id AND g.state = 'paused'
    RETURNING found.event_id),
heads AS MATERIALIZED (SELECT event_id FROM freed UNION ALL SELECT event_id FROM forgot),
placed AS MATERIALIZED (
    SELECT seq, event_id, lane, event_id IN (SELECT event_id FROM heads) AS head FROM found ORDER BY seq),
numbered AS MATERIALIZED (
    SELECT event_id, CASE WHEN head THEN seq ELSE nextval({sequence_name}) END AS number,
        CASE WHEN head OR lane = -2 THEN lane END AS lane FROM placed),
revived AS (
    UPDATE {event} e
    SET seq = n.number, lane = n.lane, status = 0, attempts = 0, available_at = t.now, done_at = NULL, last_error = NULL,
        processed_by = NULL, locked_by = NULL, locked_at = NULL, locked_until = NULL
    FROM numbered n, t
    WHERE e.event_id = ANY (ARRAY(SELECT event_id FROM found)) AND e.event_id = n.event_id AND e.status = 3
    RETURNING e.event_id, n.number),
recorded AS (
    INSERT INTO {audit} (at, actor, action, target)
    SELECT t.now, $9, 'replay', event_id FROM revived, t ORDER BY number),
grown AS (
    UPDATE {meta} SET value = value + (SELECT count(*) FROM heads)
    WHERE name = 'groups_epoch' AND EXISTS (SELECT 1 FROM heads))
SELECT count(*) FROM revived
