-- Whether a node is a member; under the write lock, which is the fence.
SELECT EXISTS (SELECT 1 FROM {node} WHERE node_id = ?1)
