-- Moves delayed rows that are due to the end of the order, if the node is a member; share lock on its row, locks on the rows.
WITH t AS MATERIALIZED (SELECT coalesce($1, clock_timestamp()) AS now),
me AS MATERIALIZED (SELECT 1 FROM {node} WHERE node_id = $2 FOR KEY SHARE),
due AS MATERIALIZED (
    SELECT event_id, {group_key} IS NOT NULL AS grouped FROM {event} e, t
    WHERE status IN (0, 2) AND lane = -1 AND available_at <= t.now AND EXISTS (SELECT 1 FROM me)
    ORDER BY available_at, seq LIMIT $3 FOR UPDATE OF e SKIP LOCKED),
numbered AS MATERIALIZED (SELECT event_id, grouped, nextval({sequence_name}) AS number FROM due),
moved AS (
    UPDATE {event} e SET seq = n.number, lane = CASE WHEN $4 AND n.grouped THEN NULL ELSE $5::smallint END
    FROM numbered n WHERE e.event_id = ANY (ARRAY(SELECT event_id FROM due)) AND e.event_id = n.event_id
    RETURNING 1)
SELECT EXISTS (SELECT 1 FROM me), (SELECT count(*) FROM moved), t.now FROM t
