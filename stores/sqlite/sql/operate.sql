-- Operators' changes: groups, replays, cancels, purges, and the audit entries about them.

-- name: groups
-- A page of held groups, after a key; no lock.
SELECT group_key, state, event_id, reason, held_by, since FROM {group}
WHERE group_key >= ?1 AND (?2 IS NULL OR group_key > ?2) ORDER BY group_key LIMIT ?3

-- name: groups_named
-- The held groups among these; no lock.
SELECT group_key, state, event_id, reason, held_by, since FROM {group}
WHERE group_key IN (SELECT value FROM json_each(?1)) ORDER BY group_key

-- name: group_show
-- One group, if it is held; under the write lock.
SELECT state, event_id FROM {group} WHERE group_key = ?1

-- name: group_block
-- Blocks a group behind its dead event; a paused group stays paused and remembers the
-- event; under the write lock.
INSERT INTO {group} (group_key, state, event_id, reason, held_by, since) VALUES (?1, 'blocked', ?2, ?3, 'engine', ?4)
ON CONFLICT (group_key) DO UPDATE SET event_id = excluded.event_id WHERE event_id IS NULL

-- name: group_hold
-- Holds a group, or changes the state and reason of a held one; under the write lock.
INSERT INTO {group} (group_key, state, event_id, reason, held_by, since) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (group_key) DO UPDATE
SET state = excluded.state, reason = excluded.reason, held_by = excluded.held_by, since = excluded.since

-- name: group_free
-- Frees a group; under the write lock.
DELETE FROM {group} WHERE group_key = ?1

-- name: group_behind
-- The group that is held behind this event; under the write lock.
SELECT group_key, state FROM {group} WHERE event_id = ?1

-- name: group_forget
-- Clears the dead event of a paused group; under the write lock.
UPDATE {group} SET event_id = NULL WHERE group_key = ?1

-- name: epoch
-- The epoch of the group states, which increases with each change; no lock.
SELECT value FROM {meta} WHERE name = 'groups_epoch'

-- name: epoch_grow
-- Tells nodes that group states have changed; under the write lock.
UPDATE {meta} SET value = value + 1 WHERE name = 'groups_epoch'

-- name: dead_matching
-- Dead events of a selection, oldest first; under the write lock.
SELECT seq, event_id, lane FROM {selected} AND {state} = 3 ORDER BY seq LIMIT ?7

-- name: locate
-- The sequence number of one event; under the write lock.
SELECT seq FROM {event} WHERE event_id = ?1

-- name: revive
-- Makes one dead event new again in its place; under the write lock.
UPDATE {event}
SET status = 0, attempts = 0, available_at = ?2, done_at = NULL, last_error = NULL, processed_by = NULL, locked_by = NULL,
    locked_at = NULL, locked_until = NULL
WHERE seq = ?1 AND {state} = 3

-- name: restore
-- Forgets that one row was set aside; under the write lock.
DELETE FROM {oversized} WHERE seq = ?1

-- name: discard
-- Deletes one dead event; under the write lock.
DELETE FROM {event} WHERE seq = ?1 AND {state} = 3

-- name: clear
-- Forgets rows that were set aside and are gone; under the write lock.
DELETE FROM {oversized} WHERE seq NOT IN (SELECT seq FROM {event})

-- name: cancellable
-- One pending event without a live claim, and whether it is or was a step of a join; under the write lock.
SELECT seq, joined IS NOT NULL FROM {event}
WHERE event_id = ?1 AND {pending} AND (locked_until IS NULL OR locked_until <= ?2)

-- name: cancel
-- Deletes one row; under the write lock. RETURNING would load it whole.
DELETE FROM {event} WHERE rowid = ?1

-- name: ended
-- Rows of one status that ended before a time, or were written before it if their end is not recorded; under
-- the write lock. Leaves out dead events that hold a group and steps of open joins.
SELECT seq, event_id FROM (
    SELECT seq, event_id FROM {event} INDEXED BY {event_ended}
    WHERE status IN (1, 3) AND status = ?1 AND done_at < ?2
        AND (?1 = 1 OR NOT EXISTS (SELECT 1 FROM {group} g WHERE g.event_id = {event}.event_id))
        AND (joined IS NULL OR NOT EXISTS (
            SELECT 1 FROM {join_member} m JOIN {join} j ON j.join_id = m.join_id WHERE m.event_id = {event}.event_id AND j.status = 0))
    ORDER BY done_at LIMIT ?3)
UNION ALL
SELECT seq, event_id FROM (
    SELECT seq, event_id FROM {event} INDEXED BY {event_ended}
    WHERE status IN (1, 3) AND status = ?1 AND done_at IS NULL AND created_at < ?2
        AND (?1 = 1 OR NOT EXISTS (SELECT 1 FROM {group} g WHERE g.event_id = {event}.event_id))
        AND (joined IS NULL OR NOT EXISTS (
            SELECT 1 FROM {join_member} m JOIN {join} j ON j.join_id = m.join_id WHERE m.event_id = {event}.event_id AND j.status = 0))
    LIMIT ?3)
UNION ALL
SELECT seq, event_id FROM {oversized} o
WHERE ?1 = 3 AND done_at < ?2 AND NOT EXISTS (SELECT 1 FROM {group} g WHERE g.event_id = o.event_id)
    AND NOT EXISTS (
        SELECT 1 FROM {join_member} m JOIN {join} j ON j.join_id = m.join_id WHERE m.event_id = o.event_id AND j.status = 0)
LIMIT ?3

-- name: written_before
-- Rows that were written before a time, whatever their status, by sequence number; under the write lock.
-- Leaves out dead events that hold a group and steps of open joins.
SELECT seq, event_id FROM {event} WHERE created_at < ?1
    AND NOT EXISTS (SELECT 1 FROM {group} g WHERE g.event_id = {event}.event_id)
    AND (joined IS NULL OR NOT EXISTS (
        SELECT 1 FROM {join_member} m JOIN {join} j ON j.join_id = m.join_id WHERE m.event_id = {event}.event_id AND j.status = 0))
ORDER BY seq LIMIT ?2

-- name: purge
-- Deletes one row that ended before a time, unless it was replayed meanwhile; under the write lock.
DELETE FROM {event} WHERE seq = ?1 AND {state} = ?2 AND coalesce({done_at}, created_at) < ?3

-- name: purge_any
-- Deletes one row that was written before a time, whatever its status; under the write lock.
DELETE FROM {event} WHERE seq = ?1 AND created_at < ?2

-- name: audit
-- Adds an audit entry; under the write lock.
INSERT INTO {audit} (at, actor, action, target) VALUES (?1, ?2, ?3, ?4)

-- name: audits
-- The latest audit entries; no lock.
SELECT at, actor, action, target FROM {audit} ORDER BY id DESC LIMIT ?1
