-- Settling: applying outcomes under the fence of the node or of the claim.

-- name: node_lock
-- The time, if the node is registered; share lock on the node's row.
SELECT {now} FROM {node} WHERE node_id = ? LOCK IN SHARE MODE

-- name: done_lock
-- Pending rows that are done, in order: whether each has a message id, whether it is a step of joins, its
-- event id, and whether it may have an attempt history. A row that failed shows that until it is replayed,
-- and then it has a token. Share lock on the node's row, without which nothing may change. Locks the rows,
-- skips rows locked by others where the server supports it: a wait would block the node's heartbeats.
SELECT 1 FROM {node} WHERE node_id = '{node_id}' LOCK IN SHARE MODE;
SELECT seq, message_id IS NOT NULL, joined IS NOT NULL, event_id,
    status = 2 OR attempts > 0 OR last_error IS NOT NULL OR lock_token IS NOT NULL
FROM {event} FORCE INDEX (PRIMARY) WHERE seq IN ({seqs}) AND status IN (0, 2) ORDER BY seq FOR UPDATE {skip_locked}

-- name: done
-- Marks rows done that this transaction has locked.
UPDATE {event} FORCE INDEX (PRIMARY)
SET status = 1, done_at = {now}, locked_by = NULL, locked_at = NULL, locked_until = NULL
WHERE {rows}

-- name: settle_find
-- Pending rows in their current state, in order, and whether they became available since a first call whose answer
-- was lost; locks the rows, skips rows locked by others where the server supports it and the caller wants it.
SELECT seq, event_id, status, attempts, lane, locked_by, lock_token, message_id IS NOT NULL, joined IS NOT NULL, {since}
FROM {event} FORCE INDEX (PRIMARY) WHERE seq IN ({seqs}) AND status IN (0, 2) ORDER BY seq FOR UPDATE {skip_locked}

-- name: settle_busy
-- The rows among these that are pending although they could not be locked; no lock.
SELECT seq, event_id FROM {event} FORCE INDEX (PRIMARY) WHERE seq IN ({seqs}) AND status IN (0, 2)

-- name: settle
-- Applies outcomes to rows that this transaction has locked. The new values were
-- computed from the locked rows.
UPDATE ({outcomes}) o STRAIGHT_JOIN {event} e ON e.seq = o.seq
SET e.status = o.status, e.attempts = o.attempts, e.lane = o.lane,
    e.done_at = CASE WHEN o.ended = 1 THEN {now} ELSE e.done_at END,
    e.available_at = CASE WHEN o.delay_us IS NULL THEN e.available_at ELSE {now} + INTERVAL o.delay_us MICROSECOND END,
    e.last_error = coalesce(o.error, e.last_error),
    e.locked_by = CASE WHEN o.kept = 1 THEN e.locked_by END, e.locked_at = CASE WHEN o.kept = 1 THEN e.locked_at END,
    e.locked_until = CASE WHEN o.lease_us IS NOT NULL THEN {now} + INTERVAL o.lease_us MICROSECOND WHEN o.kept = 1 THEN e.locked_until END,
    e.processed_by = CASE WHEN o.ended = 1 THEN coalesce({owner}, e.processed_by) ELSE e.processed_by END

-- name: delete
-- Deletes rows that this transaction has locked.
DELETE FROM {event} WHERE {rows}

-- name: attempts_add
-- Adds failed attempts to the attempt history.
INSERT INTO {attempt} (event_id, number, failed_at, failed_by, error) VALUES {rows}

-- name: attempts_forget
-- Deletes the attempt history of events that are deleted; locks its rows.
DELETE FROM {attempt} WHERE event_id IN ({ids})
