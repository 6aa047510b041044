-- Makes a join unless it is there; under the write lock.
INSERT INTO {join} (join_id, grouping_key, expected_steps, metadata, created_at, updated_at) VALUES (?1, ?2, ?3, ?4, ?5, ?5)
ON CONFLICT (join_id) DO NOTHING
