-- Adds a node; under the write lock.
INSERT INTO {node} (node_id, label, lane, joined_at, expires_at) VALUES (?1, ?2, ?3, ?4, ?5)
