-- Recording the outcomes of deliveries under the fence of the node or of the claim.

-- name: node_lock
-- Whether a node is there, and the time; share lock on its row.
SELECT {now} FROM {node} WHERE node_id = ? LOCK IN SHARE MODE

-- name: done_lock
-- Pending rows that are to be done, in order: whether each has a message id, bears the mark of joins, its event id, and whether it may have attempts on record;
-- share lock on the node's row, without which nothing changes, locks on the rows, skips those that others have locked where that can
-- be: a wait would hold up the node's heartbeats. A row that failed shows it until it is replayed, and then has a token.
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
-- Pending rows as they are before they are settled, in order; locks them, skips those that others have locked where that can be and
-- is wanted.
SELECT seq, event_id, status, attempts, lane, locked_by, lock_token, message_id IS NOT NULL, joined IS NOT NULL
FROM {event} FORCE INDEX (PRIMARY) WHERE seq IN ({seqs}) AND status IN (0, 2) ORDER BY seq FOR UPDATE {skip_locked}

-- name: settle_busy
-- Which of these rows are pending, though they could not be locked; no lock.
SELECT seq, event_id FROM {event} FORCE INDEX (PRIMARY) WHERE seq IN ({seqs}) AND status IN (0, 2)

-- name: settle
-- Applies outcomes to rows that this transaction has locked: what they become was worked out from what they were.
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
-- Remembers failed attempts.
INSERT INTO {attempt} (event_id, number, failed_at, failed_by, error) VALUES {rows}

-- name: attempts_forget
-- Deletes the attempts of events that go; locks on their rows.
DELETE FROM {attempt} WHERE event_id IN ({ids})
