-- Makes a join.
INSERT INTO {join} (join_id, grouping_key, expected_steps, metadata, created_at, updated_at) VALUES (?, ?, ?, ?, {now}, {now})
