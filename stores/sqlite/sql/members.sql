-- The members of one join by their ids; no lock.
SELECT event_id, status, created_at FROM {join_member} WHERE join_id = ?1 ORDER BY event_id LIMIT ?2
