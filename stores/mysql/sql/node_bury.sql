-- Removes a node that has expired; waits for its settles in flight; under the membership lock.
DELETE FROM {node} WHERE node_id = ? AND expires_at <= ?
