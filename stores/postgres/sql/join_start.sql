-- Makes a join, unless it is there; 0 made, 1 there already.
WITH added AS (
    INSERT INTO {join} (join_id, grouping_key, expected_steps, metadata, created_at, updated_at)
    SELECT $1, $2, $3::integer, $4, t.now, t.now FROM (SELECT coalesce($5::timestamptz, clock_timestamp()) AS now) t
    ON CONFLICT (join_id) DO NOTHING
    RETURNING 1)
SELECT CASE WHEN EXISTS (SELECT 1 FROM added) THEN 0 ELSE 1 END, NULL::text, 0
