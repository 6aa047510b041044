-- Removes a node that has stopped; waits for its settles in flight; under the membership lock.
WITH gone AS (DELETE FROM {node} WHERE node_id = $1 RETURNING node_id)
UPDATE {slot} s SET holder = NULL, suspect = false FROM gone WHERE s.holder = gone.node_id
