-- Nodes that have expired, but the one that is beating; under the write lock.
SELECT node_id FROM {node} WHERE expires_at <= ?1 AND node_id <> ?2
