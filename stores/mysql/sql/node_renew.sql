-- Renews a node that is there; lock on its row.
UPDATE {node} SET expires_at = {now} + INTERVAL ? MICROSECOND WHERE node_id = ?
