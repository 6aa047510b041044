-- Tells the state of a node that is there; takes the write lock.
UPDATE {node} SET state = ?2 WHERE node_id = ?1
