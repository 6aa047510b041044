-- Pending rows that are to be done, in order: whether each has a message id, bears the mark of joins, its event id, and whether it may have attempts on record;
-- share lock on the node's row, without which nothing changes, locks on the rows, skips those that others have locked where that can
-- be: a wait would hold up the node's heartbeats. A row that failed shows it until it is replayed, and then has a token.
SELECT 1 FROM {node} WHERE node_id = '{node_id}' LOCK IN SHARE MODE;
SELECT seq, message_id IS NOT NULL, joined IS NOT NULL, event_id,
    status = 2 OR attempts > 0 OR last_error IS NOT NULL OR lock_token IS NOT NULL
FROM {event} FORCE INDEX (PRIMARY) WHERE seq IN ({seqs}) AND status IN (0, 2) ORDER BY seq FOR UPDATE {skip_locked}
