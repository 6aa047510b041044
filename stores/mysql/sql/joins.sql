-- Joins: fan-ins of messages. When all members of a join have ended, its continuation is enqueued.

-- name: join_start
-- Creates a join; fails if it exists.
INSERT INTO {join} (join_id, grouping_key, expected_steps, metadata, created_at, updated_at) VALUES (?, ?, ?, ?, {now}, {now})

-- name: join_show
-- One join and its members by id, from one snapshot; no lock.
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ;
START TRANSACTION READ ONLY;
SELECT {join_columns} FROM {join} WHERE join_id = {id};
SELECT event_id, status, created_at FROM {join_member} WHERE join_id = {id} ORDER BY event_id LIMIT {limit};
COMMIT

-- name: joins_lock
-- The state of joins, without long columns; locks the rows in the order of their ids.
SELECT {join_state} FROM {join} FORCE INDEX (PRIMARY) WHERE join_id IN ({ids}) ORDER BY join_id FOR UPDATE

-- name: join_count
-- Adds to the counts of a join that this transaction has locked.
UPDATE {join} SET attached_steps = attached_steps + {attached}, completed_steps = completed_steps + {completed},
    failed_steps = failed_steps + {failed}, updated_at = {now} WHERE join_id = {id}

-- name: join_wait
-- Sets what happens when a join ends, unless it was set before; this transaction has locked the join.
UPDATE {join}
SET fail_if_any = ?, on_complete_topic = ?, on_complete_payload = ?, on_fail_topic = ?, on_fail_payload = ?, continuation_id = ?,
    continuation_headers = ?, updated_at = {now}
WHERE join_id = ? AND continuation_id IS NULL

-- name: join_end
-- Ends a pending join that this transaction has locked.
UPDATE {join} SET status = {status}, fired_id = {fired}, updated_at = {now} WHERE join_id = {id} AND status = 0

-- name: join_fire
-- Enqueues the continuations of ended joins in the order of their ids, unless they exist; locks the new rows.
INSERT INTO {event} (event_id, event_type, payload, headers, lane, available_at, created_at, occurred_at)
SELECT fired_id, CASE status WHEN 2 THEN on_fail_topic ELSE on_complete_topic END,
    CASE status WHEN 2 THEN on_fail_payload ELSE on_complete_payload END, continuation_headers, -2, {now}, {now}, {now}
FROM {join} FORCE INDEX (PRIMARY) WHERE join_id IN ({ids}) ORDER BY join_id
ON DUPLICATE KEY UPDATE seq = {event}.seq

-- name: joins
-- A page of joins, newest first; no lock.
SELECT {join_columns} FROM {join} WHERE {matches} ORDER BY created_at DESC, join_id DESC LIMIT {limit}

-- name: joins_ended
-- Joins that started and ended before a time; locks the rows, skips rows locked by others
-- where the server supports it.
SELECT join_id FROM {join} FORCE INDEX (created_at)
WHERE created_at < {now} - INTERVAL {age_us} MICROSECOND AND updated_at < {now} - INTERVAL {age_us} MICROSECOND AND status <> 0
ORDER BY created_at, join_id LIMIT {limit} FOR UPDATE {skip_locked}

-- name: joins_purge
-- Deletes joins that ended before a time; locks the rows.
DELETE FROM {join} WHERE join_id IN ({ids}) AND status <> 0 AND updated_at < {now} - INTERVAL {age_us} MICROSECOND

-- name: member_show
-- The state of one message in one join; locks the member.
SELECT status FROM {join_member} WHERE join_id = {id} AND event_id = {message} FOR UPDATE

-- name: member_end
-- Ends a pending step of one join; this transaction has locked the member.
UPDATE {join_member} SET status = {state} WHERE join_id = {id} AND event_id = {message} AND status = 0

-- name: members_there
-- The messages among these that are members of a join; share locks on the members.
SELECT event_id FROM {join_member} FORCE INDEX (PRIMARY) WHERE join_id = {id} AND event_id IN ({ids}) LOCK IN SHARE MODE

-- name: members_add
-- Adds messages to a join as its steps; fails if one is a member already.
INSERT INTO {join_member} (join_id, event_id, status, created_at) VALUES {rows}

-- name: members_end
-- Ends the pending steps of messages in all their joins; this transaction has locked the members.
UPDATE {join_member} FORCE INDEX (event_id) SET status = {state} WHERE event_id IN ({ids}) AND status = 0

-- name: members_pending
-- The pending steps of messages that this transaction has locked; locks the members.
SELECT join_id, event_id FROM {join_member} FORCE INDEX (event_id)
WHERE event_id IN ({ids}) AND status = 0 ORDER BY event_id, join_id FOR UPDATE

-- name: members_purge
-- Deletes the members of joins; locks the rows.
DELETE FROM {join_member} WHERE join_id IN ({ids})

-- name: steps_find
-- The sequence numbers of messages, by which steps_lock locks them; no lock.
SELECT seq FROM {event} FORCE INDEX (event_id) WHERE event_id IN ({ids})

-- name: steps_seek
-- Messages that steps_lock did not find: they were renumbered meanwhile, or are newer than the snapshot of
-- the caller's transaction; locks the rows.
SELECT event_id, seq, status, joined IS NOT NULL FROM {event} FORCE INDEX (event_id)
WHERE event_id IN ({ids}) AND lane = -2 FOR UPDATE

-- name: steps_lock
-- The state of messages of the queue, by sequence number; locks the rows in that order.
SELECT event_id, seq, status, joined IS NOT NULL FROM {event} FORCE INDEX (PRIMARY)
WHERE seq IN ({seqs}) AND event_id IN ({ids}) AND lane = -2 ORDER BY seq FOR UPDATE

-- name: steps_mark
-- Marks messages as steps of joins, so that settles look for their members; this transaction has locked them.
UPDATE {event} FORCE INDEX (PRIMARY) SET joined = 1 WHERE seq IN ({seqs}) AND joined IS NULL
