-- Recording the outcomes of deliveries under the fence of the node or of the claim.

-- name: node_here
-- Whether a node is a member; under the write lock, which is the fence.
SELECT EXISTS (SELECT 1 FROM {node} WHERE node_id = ?1)

-- name: reused
-- Whether a pending row of another event has this number; under the write lock.
SELECT EXISTS (SELECT 1 FROM {event} WHERE seq = ?1 AND status IN (0, 2) AND event_id <> ?2)

-- name: done
-- Marks one pending row done, and by whose claim; under the write lock.
UPDATE {event}
SET status = 1, done_at = ?2, processed_by = coalesce(?3, processed_by), locked_by = NULL, locked_at = NULL, locked_until = NULL
WHERE seq = ?1 AND event_id = ?5 AND status IN (0, 2) AND (?3 IS NULL OR (locked_by = ?3 AND lock_token = ?4))

-- name: done_delete
-- Deletes one pending row that is done, unless it has a message id or is or was a step of a join; under the write lock.
DELETE FROM {event}
WHERE seq = ?1 AND event_id = ?4 AND status IN (0, 2) AND message_id IS NULL AND joined IS NULL
    AND (?2 IS NULL OR (locked_by = ?2 AND lock_token = ?3))

-- name: retry
-- Sets one pending row up for another attempt, in place or in lane -1; under the write lock.
UPDATE {event}
SET status = 2, available_at = ?2, last_error = ?3, attempts = max(attempts + ?4, 0),
    lane = CASE WHEN ?5 AND lane IS NOT -2 THEN -1 ELSE lane END, locked_by = NULL, locked_at = NULL, locked_until = NULL
WHERE seq = ?1 AND event_id = ?8 AND status IN (0, 2) AND (?6 IS NULL OR (locked_by = ?6 AND lock_token = ?7))

-- name: delay
-- Puts one pending row off to lane -1, but those of the queue; under the write lock.
UPDATE {event}
SET lane = CASE WHEN lane IS -2 THEN -2 ELSE -1 END, locked_by = NULL, locked_at = NULL, locked_until = NULL
WHERE seq = ?1 AND (event_id = ?4 OR {id_in_hex} = ?4) AND status IN (0, 2) AND (?2 IS NULL OR (locked_by = ?2 AND lock_token = ?3))

-- name: dead
-- Gives one pending row up, and notes by whose claim; under the write lock.
UPDATE {event}
SET status = 3, done_at = ?2, last_error = ?3, attempts = max(attempts + ?4, 0), processed_by = coalesce(?5, processed_by),
    locked_by = NULL, locked_at = NULL, locked_until = NULL
WHERE seq = ?1 AND (event_id = ?7 OR {id_in_hex} = ?7) AND status IN (0, 2) AND (?5 IS NULL OR (locked_by = ?5 AND lock_token = ?6))

-- name: attempt
-- Counts the attempt that is about to be made on one pending row; under the write lock.
UPDATE {event} SET attempts = attempts + 1
WHERE seq = ?1 AND (event_id = ?4 OR {id_in_hex} = ?4) AND status IN (0, 2) AND (?2 IS NULL OR (locked_by = ?2 AND lock_token = ?3))

-- name: waits
-- Notes why one pending row waits; under the write lock.
UPDATE {event} SET last_error = ?5
WHERE seq = ?1 AND (event_id = ?4 OR {id_in_hex} = ?4) AND status IN (0, 2) AND (?2 IS NULL OR (locked_by = ?2 AND lock_token = ?3))

-- name: release
-- Gives one pending row back untouched, a claim's attempt with it and one that was counted ahead; under the write lock.
UPDATE {event}
SET attempts = max(attempts - ?5 - (locked_by IS NOT NULL), 0),
    locked_by = NULL, locked_at = NULL, locked_until = NULL
WHERE seq = ?1 AND (event_id = ?4 OR {id_in_hex} = ?4) AND status IN (0, 2) AND (?2 IS NULL OR (locked_by = ?2 AND lock_token = ?3))

-- name: joined
-- The id of one row if it is or was a member of a join; under the write lock.
SELECT event_id FROM {event} WHERE seq = ?1 AND joined IS NOT NULL

-- name: joins_here
-- Whether there are members of joins at all, so that most settles need not look for theirs; no lock.
SELECT EXISTS (SELECT 1 FROM {join_member})

-- name: remember
-- Records a failed attempt of one row; under the write lock.
INSERT INTO {attempt} (event_id, number, failed_at, failed_by, error)
SELECT event_id, attempts, ?2, ?3, ?4 FROM {event} WHERE seq = ?1

-- name: remembers
-- Whether there are failed attempts at all, so that most deletes need not look for theirs; no lock.
SELECT EXISTS (SELECT 1 FROM {attempt})

-- name: forget
-- Deletes the failed attempts of one event; under the write lock.
DELETE FROM {attempt} WHERE event_id = ?1
