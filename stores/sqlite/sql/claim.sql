-- Claiming rows under a lease, and reaping claims that have run out.

-- name: claim_queue
-- Rows of the queue that can be claimed, by their time, without contents that are larger than a row may be; under the write lock.
SELECT {light_columns}, {left_out}, locked_at IS NOT NULL AS lapsed FROM {event} INDEXED BY {event_queue}
WHERE status IN (0, 2) AND lane = -2 AND available_at <= ?2 AND (created_at <= ?3 OR typeof(created_at) = 'text')
    AND (locked_until IS NULL OR locked_until <= ?2)
ORDER BY available_at, seq LIMIT ?4

-- name: claim_topic
-- Messages of one topic that can be claimed, by their time, without what is in them; under the write lock.
SELECT CAST(available_at AS INTEGER), seq FROM {event} INDEXED BY {event_topic}
WHERE status IN (0, 2) AND lane = -2 AND event_type = ?4 AND available_at <= ?1 AND (created_at <= ?2 OR typeof(created_at) = 'text')
    AND (locked_until IS NULL OR locked_until <= ?1)
ORDER BY available_at, seq LIMIT ?3

-- name: claim_row
-- One row that is being claimed, without contents that are larger than a row may be; under the write lock.
SELECT {light_columns}, {left_out}, locked_at IS NOT NULL AS lapsed FROM {event} WHERE seq = ?2

-- name: claim
-- Locks one row to an owner and counts the attempt, unless a claim that ran out has counted it; under the write lock.
UPDATE {event}
SET locked_by = ?2, locked_at = ?3, locked_until = ?4, lock_token = lock_token + 1, attempts = attempts + (locked_at IS NULL)
WHERE seq = ?1

-- name: due_topics
-- Topics of messages that could be claimed, but these, from one to the next by the index; no lock.
WITH RECURSIVE topic (name, nth) AS (
    SELECT min(event_type), 1 FROM {event} INDEXED BY {event_topic} WHERE status IN (0, 2) AND lane = -2
    UNION ALL
    SELECT (SELECT min(e.event_type) FROM {event} e INDEXED BY {event_topic}
        WHERE e.status IN (0, 2) AND e.lane = -2 AND e.event_type > topic.name), nth + 1
    FROM topic WHERE name IS NOT NULL AND nth < 10000)
SELECT name FROM topic
WHERE typeof(name) = 'text' AND name NOT IN (SELECT value FROM json_each(?2)) AND EXISTS (
    SELECT 1 FROM {event} e INDEXED BY {event_topic}
    WHERE e.status IN (0, 2) AND e.lane = -2 AND e.event_type = topic.name AND e.available_at <= ?1
        AND (e.locked_until IS NULL OR e.locked_until <= ?1))
LIMIT ?3

-- name: extend
-- Moves the end of the claim on one pending row; under the write lock.
UPDATE {event} SET locked_until = ?2
WHERE seq = ?1 AND (event_id = ?5 OR {id_in_hex} = ?5) AND status IN (0, 2) AND locked_by IS NOT NULL AND (?3 IS NULL OR (locked_by = ?3 AND lock_token = ?4))

-- name: reap
-- Takes the lock off pending rows whose claim ended before a time; under the write lock. When it was made stays, for the next claim.
UPDATE {event} SET locked_by = NULL, locked_until = NULL
WHERE seq IN (SELECT seq FROM {event} INDEXED BY {event_pending} WHERE status IN (0, 2) AND locked_until <= ?1 ORDER BY seq LIMIT ?2)
