-- Tells the state of a node that is there; lock on its row, which settles do not wait for.
UPDATE {node} SET state = $2 WHERE node_id = $1
