-- Whether a node is a member and holds the slot of leadership; under the write lock, which is the fence.
SELECT EXISTS (SELECT 1 FROM {slot} s JOIN {node} n ON n.node_id = s.holder WHERE s.slot = 0 AND n.node_id = ?1)
