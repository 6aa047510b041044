-- Takes a join back and records that; locks the join. Answers: 0 changed, 1 cancelled before, 2 no such join, 3 ended.
WITH t AS MATERIALIZED (SELECT coalesce($3::timestamptz, clock_timestamp()) AS now),
found AS MATERIALIZED (SELECT j.status FROM {join} j WHERE j.join_id = $1 FOR NO KEY UPDATE),
changed AS (
    UPDATE {join} j SET status = 3, updated_at = t.now FROM t
    WHERE j.join_id = $1 AND j.status = 0 AND 0 = (SELECT status FROM found)
    RETURNING j.join_id),
recorded AS (INSERT INTO {audit} (at, actor, action, target) SELECT t.now, $2, 'cancel join', c.join_id FROM changed c, t)
SELECT CASE WHEN EXISTS (SELECT 1 FROM changed) THEN 0 ELSE coalesce((SELECT CASE status WHEN 3 THEN 1 ELSE 3 END FROM found), 2) END,
    (SELECT status::text FROM found), 0
