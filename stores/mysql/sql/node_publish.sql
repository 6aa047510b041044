-- Tells the state of a node that is there; lock on its row.
UPDATE {node} SET state = ? WHERE node_id = ?
