-- Whether a node is there; no lock.
SELECT count(*) FROM {node} WHERE node_id = ?
