-- One join with its first members, as they stood at one moment; no lock.
SELECT {join_columns}, ARRAY(SELECT event_id FROM {join_member} m WHERE m.join_id = $1 ORDER BY event_id LIMIT $2),
    ARRAY(SELECT status FROM {join_member} m WHERE m.join_id = $1 ORDER BY event_id LIMIT $2),
    ARRAY(SELECT created_at FROM {join_member} m WHERE m.join_id = $1 ORDER BY event_id LIMIT $2)
FROM {join} WHERE join_id = $1
