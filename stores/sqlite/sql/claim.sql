-- Claiming rows under a lease, and reaping expired claims.

-- name: claim_queue
-- Claimable messages of the queue, by due time, without contents above the size limit of a
-- row; under the write lock.
SELECT {light_columns}, {left_out}, locked_at IS NOT NULL AS lapsed FROM {event} INDEXED BY {event_queue}
WHERE {pending} AND lane = -2 AND available_at <= ?2 AND (created_at <= ?3 OR typeof(created_at) = 'text')
    AND (locked_until IS NULL OR locked_until <= ?2)
ORDER BY available_at, seq LIMIT ?4

-- name: claim_topic
-- The positions of claimable messages of one topic, by due time; under the write lock.
SELECT CAST(available_at AS INTEGER), seq FROM {event} INDEXED BY {event_topic}
WHERE {pending} AND lane = -2 AND event_type = ?4 AND available_at <= ?1 AND (created_at <= ?2 OR typeof(created_at) = 'text')
    AND (locked_until IS NULL OR locked_until <= ?1)
ORDER BY available_at, seq LIMIT ?3

-- name: claim_row
-- One row that is being claimed, without contents above the size limit of a row; under the write lock.
SELECT {light_columns}, {left_out}, locked_at IS NOT NULL AS lapsed FROM {event} WHERE seq = ?2

-- name: claim
-- Claims one row for an owner and counts the attempt, unless an expired claim has counted
-- it; under the write lock. Leaves alone a row that was not loaded and is too large to be rewritten.
UPDATE {event}
SET locked_by = ?2, locked_at = ?3, locked_until = ?4, lock_token = lock_token + 1, attempts = attempts + (locked_at IS NULL)
WHERE seq = ?1 AND (?5 OR NOT {is_large})

-- name: due_topics
-- Topics with claimable messages, except these; steps from topic to topic in the index; no lock.
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
        AND (e.locked_until IS NULL OR e.locked_until <= ?1) AND e.seq NOT IN (SELECT seq FROM {oversized}))
LIMIT ?3

-- name: extend
-- Extends the claim on one pending row; under the write lock.
UPDATE {event} SET locked_until = ?2
WHERE seq = ?1 AND (event_id = ?5 OR {id_in_hex} = ?5) AND status IN (0, 2) AND locked_by IS NOT NULL AND (?3 IS NULL OR (locked_by = ?3 AND lock_token = ?4))

-- name: reap
-- Removes the claims from pending rows whose claim expired before a time, unless they are too large to be rewritten;
-- under the write lock. locked_at stays: it tells the next claim that the attempt has been counted.
UPDATE {event} SET locked_by = NULL, locked_until = NULL
WHERE seq IN (SELECT seq FROM {event} INDEXED BY {event_pending} WHERE {pending} AND locked_until <= ?1 AND NOT {is_large} ORDER BY seq LIMIT ?2)
