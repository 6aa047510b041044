-- Marks pending rows done under the node's fence, and answers which; share lock on the node's row, locks on the rows.
START TRANSACTION;
SELECT seq FROM {event} FORCE INDEX (PRIMARY) WHERE seq IN ({seqs}) AND status IN (0, 2)
    AND EXISTS (SELECT 1 FROM {node} WHERE node_id = '{node_id}' LOCK IN SHARE MODE) ORDER BY seq FOR UPDATE;
UPDATE {event} FORCE INDEX (PRIMARY)
SET status = 1, done_at = {now}, locked_by = NULL, locked_at = NULL, locked_until = NULL
WHERE seq IN ({seqs}) AND status IN (0, 2) AND EXISTS (SELECT 1 FROM {node} WHERE node_id = '{node_id}');
COMMIT
