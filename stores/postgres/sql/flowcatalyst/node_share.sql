-- Whether a node is a member; share lock on its row, which is the fence.
SELECT 1 FROM {node} WHERE node_id = $1 FOR KEY SHARE
