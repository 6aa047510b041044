-- Deletes pending rows that are done under the node's fence, keeps those with a message id, and answers which; share lock on the node's row.
START TRANSACTION;
SELECT seq FROM {event} FORCE INDEX (PRIMARY) WHERE seq IN ({seqs}) AND status IN (0, 2)
    AND EXISTS (SELECT 1 FROM {node} WHERE node_id = '{node_id}' LOCK IN SHARE MODE) ORDER BY seq FOR UPDATE;
DELETE a FROM {event} e STRAIGHT_JOIN {attempt} a ON a.event_id = e.event_id
WHERE e.seq IN ({seqs}) AND e.status IN (0, 2) AND e.message_id IS NULL
    AND EXISTS (SELECT 1 FROM {node} WHERE node_id = '{node_id}');
UPDATE {event} FORCE INDEX (PRIMARY)
SET status = 1, done_at = {now}, locked_by = NULL, locked_at = NULL, locked_until = NULL
WHERE seq IN ({seqs}) AND status IN (0, 2) AND message_id IS NOT NULL
    AND EXISTS (SELECT 1 FROM {node} WHERE node_id = '{node_id}');
DELETE FROM {event} WHERE seq IN ({seqs}) AND status IN (0, 2)
    AND EXISTS (SELECT 1 FROM {node} WHERE node_id = '{node_id}');
COMMIT
