-- Joins: messages that wait for several steps.

-- name: join_start
-- Makes a join.
INSERT INTO {join} (join_id, grouping_key, expected_steps, metadata, created_at, updated_at) VALUES (?, ?, ?, ?, {now}, {now})

-- name: join_show
-- One join and its members by their ids, as they stood at one moment; no lock.
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ;
START TRANSACTION READ ONLY;
SELECT {join_columns} FROM {join} WHERE join_id = {id};
SELECT event_id, status, created_at FROM {join_member} WHERE join_id = {id} ORDER BY event_id LIMIT {limit};
COMMIT

-- name: joins_lock
-- Joins as they stand, without what is only for people; locks them in the order of their ids.
SELECT {join_state} FROM {join} FORCE INDEX (PRIMARY) WHERE join_id IN ({ids}) ORDER BY join_id FOR UPDATE

-- name: join_count
-- Adds members to what a join counts, which this transaction has locked.
UPDATE {join} SET attached_steps = attached_steps + {attached}, completed_steps = completed_steps + {completed},
    failed_steps = failed_steps + {failed}, updated_at = {now} WHERE join_id = {id}

-- name: join_wait
-- Notes what happens at the end of a join that this transaction has locked.
UPDATE {join}
SET fail_if_any = ?, on_complete_topic = ?, on_complete_payload = ?, on_fail_topic = ?, on_fail_payload = ?, continuation_id = ?,
    continuation_headers = ?, updated_at = {now}
WHERE join_id = ? AND continuation_id IS NULL

-- name: join_end
-- Ends a pending join that this transaction has locked.
UPDATE {join} SET status = {status}, fired_id = {fired}, updated_at = {now} WHERE join_id = {id} AND status = 0

-- name: join_fire
-- Enqueues what joins have ended in, unless it is there, in the order of their ids; locks of new rows.
INSERT INTO {event} (event_id, event_type, payload, headers, lane, available_at, created_at, occurred_at)
SELECT fired_id, CASE status WHEN 2 THEN on_fail_topic ELSE on_complete_topic END,
    CASE status WHEN 2 THEN on_fail_payload ELSE on_complete_payload END, continuation_headers, -2, {now}, {now}, {now}
FROM {join} FORCE INDEX (PRIMARY) WHERE join_id IN ({ids}) ORDER BY join_id
ON DUPLICATE KEY UPDATE seq = {event}.seq

-- name: joins
-- A page of joins, newest first; no lock.
SELECT {join_columns} FROM {join} WHERE {matches} ORDER BY created_at DESC, join_id DESC LIMIT {limit}

-- name: joins_ended
-- Joins that ended before a time, which were started before it too; locks them, skips those that others have locked.
SELECT join_id FROM {join} FORCE INDEX (created_at)
WHERE created_at < {now} - INTERVAL {age_us} MICROSECOND AND updated_at < {now} - INTERVAL {age_us} MICROSECOND AND status <> 0
ORDER BY created_at, join_id LIMIT {limit} FOR UPDATE {skip_locked}

-- name: joins_purge
-- Deletes joins that ended before a time; locks on the rows.
DELETE FROM {join} WHERE join_id IN ({ids}) AND status <> 0 AND updated_at < {now} - INTERVAL {age_us} MICROSECOND

-- name: member_show
-- Where one message stands in one join; locks the member.
SELECT status FROM {join_member} WHERE join_id = {id} AND event_id = {message} FOR UPDATE

-- name: member_end
-- Ends a pending step of one join; this transaction has locked it.
UPDATE {join_member} SET status = {state} WHERE join_id = {id} AND event_id = {message} AND status = 0

-- name: members_there
-- Which messages are members of a join; share locks on these.
SELECT event_id FROM {join_member} FORCE INDEX (PRIMARY) WHERE join_id = {id} AND event_id IN ({ids}) LOCK IN SHARE MODE

-- name: members_add
-- Makes messages steps of a join; fails where one is.
INSERT INTO {join_member} (join_id, event_id, status, created_at) VALUES {rows}

-- name: members_end
-- Ends the pending steps of messages in all their joins; this transaction has locked them.
UPDATE {join_member} FORCE INDEX (event_id) SET status = {state} WHERE event_id IN ({ids}) AND status = 0

-- name: members_pending
-- The pending steps of messages, whose rows this transaction has locked; locks them.
SELECT join_id, event_id FROM {join_member} FORCE INDEX (event_id)
WHERE event_id IN ({ids}) AND status = 0 ORDER BY event_id, join_id FOR UPDATE

-- name: members_purge
-- Deletes the members of joins; locks on the rows.
DELETE FROM {join_member} WHERE join_id IN ({ids})

-- name: steps_find
-- The numbers of messages, by which they are locked; no lock.
SELECT seq FROM {event} FORCE INDEX (event_id) WHERE event_id IN ({ids})

-- name: steps_seek
-- The same of messages that were not found by their numbers: they may have got others, or are newer than what the caller's transaction sees.
SELECT event_id, seq, status, joined IS NOT NULL FROM {event} FORCE INDEX (event_id)
WHERE event_id IN ({ids}) AND lane = -2 FOR UPDATE

-- name: steps_lock
-- How messages of the queue stand, in the order of their numbers; locks them.
SELECT event_id, seq, status, joined IS NOT NULL FROM {event} FORCE INDEX (PRIMARY)
WHERE seq IN ({seqs}) AND event_id IN ({ids}) AND lane = -2 ORDER BY seq FOR UPDATE

-- name: steps_mark
-- Marks messages as steps of joins, so that settles look for their members; this transaction has locked them.
UPDATE {event} FORCE INDEX (PRIMARY) SET joined = 1 WHERE seq IN ({seqs}) AND joined IS NULL
