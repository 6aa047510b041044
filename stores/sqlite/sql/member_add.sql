-- Makes a message a step of a join; under the write lock.
INSERT INTO {join_member} (join_id, event_id, status, created_at) VALUES (?1, ?2, ?3, ?4)
