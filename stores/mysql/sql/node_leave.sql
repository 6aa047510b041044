-- Removes a node that has stopped; waits for its settles in flight; under the membership lock.
DELETE FROM {node} WHERE node_id = ?
