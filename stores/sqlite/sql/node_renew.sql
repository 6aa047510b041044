-- Renews a node that is there; under the write lock.
UPDATE {node} SET expires_at = ?2 WHERE node_id = ?1
