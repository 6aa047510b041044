-- Whether a node is there, and the time; share lock on its row.
SELECT {now} FROM {node} WHERE node_id = ? LOCK IN SHARE MODE
