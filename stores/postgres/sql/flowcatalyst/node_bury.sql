-- Removes nodes that have expired, but the one that is beating; waits for their settles in flight; under the membership lock.
WITH buried AS (DELETE FROM {node} WHERE expires_at <= $1 AND node_id <> $2 RETURNING node_id)
UPDATE {slot} s SET holder = NULL, suspect = true FROM buried WHERE s.holder = buried.node_id
