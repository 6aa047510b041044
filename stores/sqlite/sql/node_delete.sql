-- Removes a node; under the write lock, so it waits for settles in flight.
DELETE FROM {node} WHERE node_id = ?1
