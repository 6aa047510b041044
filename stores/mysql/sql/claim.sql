-- Claiming rows under a lease, and reaping expired claims.

-- name: probe_hold
-- Locks the row that the probe tests, until the transaction ends.
SELECT value FROM {meta} WHERE name = 'probe' FOR UPDATE

-- name: probe_skip
-- Must return no row while another transaction holds the lock of probe_hold.
SELECT value FROM {meta} WHERE name = 'probe' FOR UPDATE SKIP LOCKED

-- name: claim_find
-- Due rows outside the queue, in order; locks the rows, skips rows locked by others.
SELECT {light_columns}, {now} AS `now`, {claim_tail} FROM {event} FORCE INDEX (pending)
WHERE pending = 1 AND slot <> -2 AND available_at <= {now} AND (locked_until IS NULL OR locked_until <= {now})
    AND created_at <= {youngest}
ORDER BY seq LIMIT ? FOR UPDATE SKIP LOCKED

-- name: claim_queue_find
-- Due messages of the queue, by due time; locks the rows, skips rows locked by others.
SELECT {light_columns}, {now} AS `now`, {claim_tail} FROM {event} FORCE INDEX (agenda)
WHERE agenda = -2 AND agenda_at <= {now} AND (locked_until IS NULL OR locked_until <= {now})
    AND created_at <= {youngest}
ORDER BY agenda_at, seq LIMIT ? FOR UPDATE SKIP LOCKED

-- name: claim_topic_find
-- The first due messages of one topic, by due time; no lock. One part of a union.
(SELECT available_at, seq FROM {event} FORCE INDEX (topic)
WHERE topic = {topic} AND available_at <= {now} AND (locked_until IS NULL OR locked_until <= {now}) AND created_at <= {youngest}
ORDER BY available_at, seq LIMIT {limit})

-- name: claim_topic_lock
-- The messages among these that can still be claimed; locks the rows, skips rows locked by others where the
-- server supports it.
SELECT {light_columns}, {now} AS `now`, {claim_tail} FROM {event} FORCE INDEX (PRIMARY)
WHERE seq IN ({seqs}) AND status IN (0, 2) AND lane = -2 AND available_at <= {now} AND (locked_until IS NULL OR locked_until <= {now})
ORDER BY seq FOR UPDATE {skip_locked}

-- name: claim
-- Claims rows that this transaction has locked. If an expired claim has counted its attempt, that
-- attempt is not counted again. This relies on assignments running from left to right: locked_at
-- is read before it is set.
UPDATE {event} FORCE INDEX (PRIMARY)
SET attempts = attempts + (locked_at IS NULL), locked_by = {owner}, locked_at = {now},
    locked_until = {now} + INTERVAL {lease_us} MICROSECOND, lock_token = coalesce(lock_token, 0) + 1
WHERE seq IN ({seqs})

-- name: claim_large
-- Rows that this transaction has locked, with contents up to the size limit of a single row.
SELECT {light_columns}, {now} AS `now`, {claim_tail} FROM {event} FORCE INDEX (PRIMARY) WHERE seq IN ({seqs})

-- name: claim_mark
-- Marks due rows outside the queue, in order, on servers without SKIP LOCKED; locks the rows, so claims wait
-- for each other.
UPDATE {event} FORCE INDEX (pending) SET locked_by = ?
WHERE pending = 1 AND slot <> -2 AND available_at <= {now} AND (locked_until IS NULL OR locked_until <= {now})
    AND created_at <= {youngest}
ORDER BY seq LIMIT ?

-- name: claim_queue_mark
-- Marks due messages of the queue, by due time, on servers without SKIP LOCKED; locks the rows, so claims
-- wait for each other.
UPDATE {event} FORCE INDEX (agenda) SET locked_by = ?
WHERE agenda = -2 AND agenda_at <= {now} AND (locked_until IS NULL OR locked_until <= {now})
    AND created_at <= {youngest}
ORDER BY agenda_at, seq LIMIT ?

-- name: claim_marked
-- The rows that this transaction has marked; no lock.
SELECT {light_columns}, {now} AS `now`, {claim_tail} FROM {event} FORCE INDEX (pending) WHERE pending = 1 AND locked_by = ? ORDER BY {order} LIMIT ?

-- name: claim_unmark
-- Removes the mark from rows that are not claimed after all; this transaction has locked them.
UPDATE {event} FORCE INDEX (PRIMARY) SET locked_by = NULL WHERE seq IN ({seqs})

-- name: due_topics
-- Topics with claimable messages, except these; steps from topic to topic in the index; no lock.
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

-- name: due_topics_scan
-- The same by reading the whole index, for TiDB: it can step from topic to topic in no form; no lock.
SELECT DISTINCT topic FROM {event} FORCE INDEX (topic)
WHERE topic IS NOT NULL AND topic NOT IN ({topics}) AND available_at <= {now} AND (locked_until IS NULL OR locked_until <= {now})
LIMIT {limit}

-- name: reap_find
-- Pending rows whose claim expired before a time; no lock.
SELECT seq FROM {event} FORCE INDEX (pending) WHERE pending = 1 AND locked_until <= {now} - INTERVAL {age_us} MICROSECOND
ORDER BY seq LIMIT {limit}

-- name: reap_lock
-- The rows among these whose claim is still expired, in order; locks the rows, skips rows locked by others
-- where the server supports it.
SELECT seq FROM {event} FORCE INDEX (PRIMARY)
WHERE seq IN ({seqs}) AND status IN (0, 2) AND locked_until <= {now} - INTERVAL {age_us} MICROSECOND ORDER BY seq FOR UPDATE {skip_locked}

-- name: reap
-- Removes the claims from rows that this transaction has locked. locked_at stays: it tells the next claim
-- that the attempt has been counted.
UPDATE {event} FORCE INDEX (PRIMARY) SET locked_by = NULL, locked_until = NULL WHERE seq IN ({seqs})
