-- Joins: fan-ins of messages. When all members of a join have ended, its continuation is enqueued.

-- name: join_start
-- Creates a join unless it exists; under the write lock.
INSERT INTO {join} (join_id, grouping_key, expected_steps, metadata, created_at, updated_at) VALUES (?1, ?2, ?3, ?4, ?5, ?5)
ON CONFLICT (join_id) DO NOTHING

-- name: join_show
-- One join; no lock for a query, under the write lock for a change.
SELECT {join_columns} FROM {join} WHERE join_id = ?1

-- name: join_count
-- Adds to the counts of a join; under the write lock.
UPDATE {join}
SET attached_steps = attached_steps + ?2, completed_steps = completed_steps + ?3, failed_steps = failed_steps + ?4, updated_at = ?5
WHERE join_id = ?1

-- name: join_wait
-- Sets what happens when a join ends, unless it was set before; under the write lock.
UPDATE {join}
SET fail_if_any = ?2, on_complete_topic = ?3, on_complete_payload = ?4, on_fail_topic = ?5, on_fail_payload = ?6,
    continuation_id = ?7, continuation_headers = ?8, updated_at = ?9
WHERE join_id = ?1 AND continuation_id IS NULL

-- name: join_end
-- Ends a pending join; under the write lock.
UPDATE {join} SET status = ?2, fired_id = ?3, updated_at = ?4 WHERE join_id = ?1 AND status = 0

-- name: join_purge
-- Deletes one join that ended before a time; under the write lock.
DELETE FROM {join} WHERE join_id = ?1 AND status <> 0 AND updated_at < ?2

-- name: joins
-- A page of joins, newest first; no lock.
SELECT {join_columns} FROM {join} WHERE ?1 IS NULL OR status = ?1 ORDER BY created_at DESC, join_id DESC LIMIT ?2

-- name: joins_grouped
-- A page of joins that share a grouping key, newest first; no lock.
SELECT {join_columns} FROM {join} WHERE grouping_key = ?3 AND (?1 IS NULL OR status = ?1)
ORDER BY created_at DESC, join_id DESC LIMIT ?2

-- name: joins_ended
-- Joins that ended before a time; under the write lock.
SELECT join_id FROM {join} INDEXED BY {join_ended} WHERE status <> 0 AND updated_at < ?1 ORDER BY updated_at LIMIT ?2

-- name: members
-- The members of one join by id; no lock.
SELECT event_id, status, created_at FROM {join_member} WHERE join_id = ?1 ORDER BY event_id LIMIT ?2

-- name: members_purge
-- Deletes the members of one join; under the write lock.
DELETE FROM {join_member} WHERE join_id = ?1

-- name: member_show
-- The state of one message in one join; under the write lock.
SELECT status FROM {join_member} WHERE join_id = ?1 AND event_id = ?2

-- name: member_add
-- Adds a message to a join as a step; under the write lock.
INSERT INTO {join_member} (join_id, event_id, status, created_at) VALUES (?1, ?2, ?3, ?4)

-- name: member_report
-- Ends a pending step of one join; under the write lock.
UPDATE {join_member} SET status = ?3 WHERE join_id = ?1 AND event_id = ?2 AND status = 0

-- name: member_end
-- Ends a message's pending steps in all its joins, and returns these joins; under the write lock.
UPDATE {join_member} SET status = ?2 WHERE event_id = ?1 AND status = 0 RETURNING join_id

-- name: step_show
-- The status of one message of the queue; under the write lock.
SELECT {state} FROM {event} WHERE event_id = ?1 AND lane = -2

-- name: step_mark
-- Marks one message as a step of a join, so that settles look for its members; under the write lock.
UPDATE {event} SET joined = 1 WHERE event_id = ?1 AND joined IS NULL
