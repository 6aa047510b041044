-- Settling: applying outcomes under the fence of the node or of the claim.

-- name: node_here
-- Whether a node is registered; under the write lock, which makes this check a fence.
SELECT EXISTS (SELECT 1 FROM {node} WHERE node_id = ?1)

-- name: reused
-- Whether this sequence number belongs to a pending row of another event; under the write lock.
SELECT EXISTS (SELECT 1 FROM {event} WHERE seq = ?1 AND status IN (0, 2) AND event_id <> ?2)

-- name: done
-- Marks one pending row done, and records the owner of the claim; under the write lock.
UPDATE {event}
SET status = 1, done_at = ?2, processed_by = coalesce(?3, processed_by), locked_by = NULL, locked_at = NULL, locked_until = NULL
WHERE seq = ?1 AND event_id = ?5 AND status IN (0, 2) AND (?3 IS NULL OR (locked_by = ?3 AND lock_token = ?4))

-- name: done_delete
-- Deletes one pending row that is done, unless it has a message id or is or was a step of a
-- join; under the write lock.
DELETE FROM {event}
WHERE seq = ?1 AND event_id = ?4 AND status IN (0, 2) AND message_id IS NULL AND joined IS NULL
    AND (?2 IS NULL OR (locked_by = ?2 AND lock_token = ?3))

-- name: retry
-- Schedules another attempt for one pending row, in place or in lane -1; under the write lock.
-- With a time, only a row that was available before it: what became so later was settled by an earlier call whose
-- answer was lost, or replayed.
UPDATE {event}
SET status = 2, available_at = ?2, last_error = ?3, attempts = ?4,
    lane = CASE WHEN ?5 AND lane IS NOT -2 THEN -1 ELSE lane END, locked_by = NULL, locked_at = NULL, locked_until = NULL
WHERE seq = ?1 AND event_id = ?8 AND status IN (0, 2) AND (?6 IS NULL OR (locked_by = ?6 AND lock_token = ?7))
    AND (?9 IS NULL OR available_at < ?9)

-- name: delay
-- Moves one pending row to lane -1, except messages of the queue; under the write lock.
UPDATE {event}
SET lane = CASE WHEN lane IS -2 THEN -2 ELSE -1 END, locked_by = NULL, locked_at = NULL, locked_until = NULL
WHERE seq = ?1 AND (event_id = ?4 OR {id_in_hex} = ?4) AND status IN (0, 2) AND (?2 IS NULL OR (locked_by = ?2 AND lock_token = ?3))

-- name: dead
-- Marks one pending row dead, and records the owner of the claim; under the write lock. With a time, as in `retry`.
-- Leaves alone a row that is too large to be rewritten.
UPDATE {event}
SET status = 3, done_at = ?2, last_error = ?3, attempts = ?4, processed_by = coalesce(?5, processed_by),
    locked_by = NULL, locked_at = NULL, locked_until = NULL
WHERE seq = ?1 AND (event_id = ?7 OR {id_in_hex} = ?7) AND status IN (0, 2) AND (?5 IS NULL OR (locked_by = ?5 AND lock_token = ?6))
    AND (?8 IS NULL OR available_at < ?8) AND NOT {is_large}

-- name: set_aside
-- Records that one pending row is dead that is too large to be rewritten, with the parameters of `dead`; under the
-- write lock. Such a row may not be claimed, if it was not loaded.
INSERT INTO {oversized} (seq, event_id, attempts, done_at, last_error, processed_by)
SELECT seq, event_id, ?4, ?2, ?3, coalesce(?5, processed_by) FROM {event}
WHERE seq = ?1 AND (event_id = ?7 OR {id_in_hex} = ?7) AND status IN (0, 2) AND {is_large}
    AND (?5 IS NULL OR (locked_by = ?5 AND lock_token = ?6) OR (?6 = 0 AND (locked_until IS NULL OR locked_until <= ?2)))
    AND (?8 IS NULL OR available_at < ?8)
ON CONFLICT DO NOTHING

-- name: attempt
-- Counts an attempt on one pending row before it is made; under the write lock.
UPDATE {event} SET attempts = ?5
WHERE seq = ?1 AND (event_id = ?4 OR {id_in_hex} = ?4) AND status IN (0, 2) AND (?2 IS NULL OR (locked_by = ?2 AND lock_token = ?3))

-- name: waits
-- Records why one pending row is waiting; under the write lock.
UPDATE {event} SET last_error = ?5
WHERE seq = ?1 AND (event_id = ?4 OR {id_in_hex} = ?4) AND status IN (0, 2) AND (?2 IS NULL OR (locked_by = ?2 AND lock_token = ?3))

-- name: release
-- Releases one pending row untried; under the write lock.
UPDATE {event}
SET attempts = ?5,
    locked_by = NULL, locked_at = NULL, locked_until = NULL
WHERE seq = ?1 AND (event_id = ?4 OR {id_in_hex} = ?4) AND status IN (0, 2) AND (?2 IS NULL OR (locked_by = ?2 AND lock_token = ?3))

-- name: joined
-- The id of one row, if it is or was a step of a join; under the write lock.
SELECT event_id FROM {event} WHERE seq = ?1 AND joined IS NOT NULL

-- name: joins_here
-- Whether any join has members, so that most settles need not look for theirs; no lock.
SELECT EXISTS (SELECT 1 FROM {join_member})

-- name: remember
-- Adds a failed attempt of one row to the attempt history; under the write lock.
INSERT INTO {attempt} (event_id, number, failed_at, failed_by, error)
SELECT event_id, {attempts}, ?2, ?3, ?4 FROM {event} WHERE seq = ?1

-- name: remembers
-- Whether any failed attempt is recorded, so that most deletes need not look for theirs; no lock.
SELECT EXISTS (SELECT 1 FROM {attempt})

-- name: forget
-- Deletes the attempt history of one event; under the write lock.
DELETE FROM {attempt} WHERE event_id = ?1
