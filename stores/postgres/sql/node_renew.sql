-- Renews a node that is there; lock on its row, which settles do not wait for.
UPDATE {node} SET expires_at = coalesce($2, clock_timestamp()) + $3 * interval '1 microsecond' WHERE node_id = $1
