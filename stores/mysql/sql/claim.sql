-- Claiming rows under a lease, and reaping claims that have run out.

-- name: probe_hold
-- Holds the row that a probe looks for, until the transaction ends.
SELECT value FROM {meta} WHERE name = 'probe' FOR UPDATE

-- name: probe_skip
-- Must not answer with a row that someone holds.
SELECT value FROM {meta} WHERE name = 'probe' FOR UPDATE SKIP LOCKED

-- name: claim_find
-- Rows that are due, but those of the queue, in order; locks the rows it takes, skips those that others have locked.
SELECT {light_columns}, {now} AS `now`, {claim_tail} FROM {event} FORCE INDEX (pending)
WHERE pending = 1 AND slot <> -2 AND available_at <= {now} AND (locked_until IS NULL OR locked_until <= {now})
    AND created_at <= {youngest}
ORDER BY seq LIMIT ? FOR UPDATE SKIP LOCKED

-- name: claim_queue_find
-- Rows of the queue that are due, by their time; locks the rows it takes, skips those that others have locked.
SELECT {light_columns}, {now} AS `now`, {claim_tail} FROM {event} FORCE INDEX (agenda)
WHERE agenda = -2 AND agenda_at <= {now} AND (locked_until IS NULL OR locked_until <= {now})
    AND created_at <= {youngest}
ORDER BY agenda_at, seq LIMIT ? FOR UPDATE SKIP LOCKED

-- name: claim_topic_find
-- The first messages of one topic that are due, by their time; no lock. One part of a union.
(SELECT available_at, seq FROM {event} FORCE INDEX (topic)
WHERE topic = {topic} AND available_at <= {now} AND (locked_until IS NULL OR locked_until <= {now}) AND created_at <= {youngest}
ORDER BY available_at, seq LIMIT {limit})

-- name: claim_topic_lock
-- Those of these messages that can still be claimed; locks them, skips those that others have locked where that can be.
SELECT {light_columns}, {now} AS `now`, {claim_tail} FROM {event} FORCE INDEX (PRIMARY)
WHERE seq IN ({seqs}) AND status IN (0, 2) AND lane = -2 AND available_at <= {now} AND (locked_until IS NULL OR locked_until <= {now})
ORDER BY seq FOR UPDATE {skip_locked}

-- name: claim
-- Claims rows that this transaction has locked. An attempt that a claim that ran out has counted is not counted again: assignments
-- are made from left to right.
UPDATE {event} FORCE INDEX (PRIMARY)
SET attempts = attempts + (locked_at IS NULL), locked_by = {owner}, locked_at = {now},
    locked_until = {now} + INTERVAL {lease_us} MICROSECOND, lock_token = coalesce(lock_token, 0) + 1
WHERE seq IN ({seqs})

-- name: claim_large
-- Rows that this transaction has locked, with contents up to what a row may have.
SELECT {light_columns}, {now} AS `now`, {claim_tail} FROM {event} FORCE INDEX (PRIMARY) WHERE seq IN ({seqs})

-- name: claim_mark
-- Marks rows that are due, but those of the queue, in order, where no lock is skipped; locks the rows, one claim after the other.
UPDATE {event} FORCE INDEX (pending) SET locked_by = ?
WHERE pending = 1 AND slot <> -2 AND available_at <= {now} AND (locked_until IS NULL OR locked_until <= {now})
    AND created_at <= {youngest}
ORDER BY seq LIMIT ?

-- name: claim_queue_mark
-- Marks rows of the queue that are due, by their time, where no lock is skipped; locks the rows, one claim after the other.
UPDATE {event} FORCE INDEX (agenda) SET locked_by = ?
WHERE agenda = -2 AND agenda_at <= {now} AND (locked_until IS NULL OR locked_until <= {now})
    AND created_at <= {youngest}
ORDER BY agenda_at, seq LIMIT ?

-- name: claim_marked
-- The rows that this transaction has marked; no lock.
SELECT {light_columns}, {now} AS `now`, {claim_tail} FROM {event} FORCE INDEX (pending) WHERE pending = 1 AND locked_by = ? ORDER BY {order} LIMIT ?

-- name: claim_unmark
-- Takes the mark from rows that are not claimed after all.
UPDATE {event} FORCE INDEX (PRIMARY) SET locked_by = NULL WHERE seq IN ({seqs})

-- name: due_topics
-- Topics of messages that could be claimed, but these, from one to the next by the index; no lock.
WITH RECURSIVE t (name, nth) AS (
    SELECT min(topic), 1 FROM {event} FORCE INDEX (topic) WHERE topic IS NOT NULL
    UNION ALL
    SELECT (SELECT min(e.topic) FROM {event} e FORCE INDEX (topic) WHERE e.topic > t.name), nth + 1
    FROM t WHERE t.name IS NOT NULL AND nth < 900)
SELECT name FROM t
WHERE name IS NOT NULL AND name NOT IN ({topics}) AND EXISTS (
    SELECT 1 FROM {event} e FORCE INDEX (topic)
    WHERE e.topic = t.name AND e.available_at <= {now} AND (e.locked_until IS NULL OR e.locked_until <= {now}))
LIMIT {limit}

-- name: reap_find
-- Pending rows whose claim ran out before a time; no lock.
SELECT seq FROM {event} FORCE INDEX (pending) WHERE pending = 1 AND locked_until <= {now} - INTERVAL {age_us} MICROSECOND
ORDER BY seq LIMIT {limit}

-- name: reap_lock
-- Those that still are so, in order; locks them, skips those that others have locked.
SELECT seq FROM {event} FORCE INDEX (PRIMARY)
WHERE seq IN ({seqs}) AND status IN (0, 2) AND locked_until <= {now} - INTERVAL {age_us} MICROSECOND ORDER BY seq FOR UPDATE {skip_locked}

-- name: reap
-- Takes the claims off rows that this transaction has locked. When they were made stays, for the next claim.
UPDATE {event} FORCE INDEX (PRIMARY) SET locked_by = NULL, locked_until = NULL WHERE seq IN ({seqs})
