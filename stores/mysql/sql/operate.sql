-- Operators' changes: groups, replays, cancels, purges, and the audit entries about them.

-- name: groups
-- A page of held groups, after a key; no lock.
SELECT group_key, state, event_id, reason, held_by, since FROM {group} WHERE group_key >= {from} AND {after}
ORDER BY group_key LIMIT {limit}

-- name: groups_named
-- The held groups among these; no lock.
SELECT group_key, state, event_id, reason, held_by, since FROM {group} WHERE group_key IN ({groups}) ORDER BY group_key

-- name: group_show
-- One group, if it is held; locks the row.
SELECT state, event_id FROM {group} WHERE group_key = ? FOR UPDATE

-- name: group_head
-- Sets the dead event of a held group; locks the row.
UPDATE {group} SET event_id = ? WHERE group_key = ?

-- name: group_hold
-- Holds a group, or changes the state and reason of a held one; locks the row.
INSERT INTO {group} (group_key, state, event_id, reason, held_by, since) VALUES (?, ?, ?, ?, ?, ?)
ON DUPLICATE KEY UPDATE state = VALUES(state), reason = VALUES(reason), held_by = VALUES(held_by), since = VALUES(since)

-- name: group_free
-- Frees a group; locks the row.
DELETE FROM {group} WHERE group_key = ?

-- name: groups_behind
-- The groups that are held behind these events; locks the rows.
SELECT group_key, state, event_id FROM {group} FORCE INDEX (event_id) WHERE event_id IN ({ids}) ORDER BY group_key FOR UPDATE

-- name: epoch
-- The epoch of the group states, which increases with each change; no lock.
SELECT value FROM {meta} WHERE name = 'groups_epoch'

-- name: epoch_grow
-- Tells nodes that group states have changed; locks the row.
UPDATE {meta} SET value = value + ? WHERE name = 'groups_epoch'

-- name: dead_find
-- Dead events of a selection, oldest first; locks the rows.
SELECT seq, event_id, lane, {group_key} IS NOT NULL FROM {selected} AND status = 3
ORDER BY seq LIMIT ? FOR UPDATE

-- name: revive
-- Makes dead events new again in their place; locks the rows. Each gets a token, which tells a settle that
-- the event may have an attempt history.
UPDATE {event} FORCE INDEX (event_id)
SET status = 0, attempts = 0, available_at = {now}, done_at = NULL, last_error = NULL, processed_by = NULL, locked_by = NULL, locked_at = NULL,
    locked_until = NULL, lock_token = coalesce(lock_token, 0)
WHERE event_id IN ({ids}) AND status = 3

-- name: cancel_find
-- Pending events without a live claim, and whether they are marked as steps of joins; locks the rows, in the
-- caller's transaction.
SELECT seq, event_id, joined IS NOT NULL FROM {event} FORCE INDEX (event_id)
WHERE event_id IN ({ids}) AND status IN (0, 2) AND (locked_until IS NULL OR locked_until <= {now}) FOR UPDATE

-- name: remove
-- Deletes rows that this transaction has locked, and their attempt history.
DELETE FROM {attempt} WHERE event_id IN ({ids});
DELETE FROM {event} WHERE {rows}

-- name: purge_find
-- Rows of one status that ended before a time; locks the rows, skips rows locked by others where the server
-- supports it. Leaves out dead events that hold a group and steps of open joins.
SELECT seq, event_id FROM {event} e FORCE INDEX (agenda)
WHERE agenda = ? AND agenda_at < {now} - INTERVAL ? MICROSECOND
    AND (agenda = 1 OR NOT EXISTS (SELECT 1 FROM {group} g WHERE g.event_id = e.event_id))
    AND (e.joined IS NULL OR NOT EXISTS (
        SELECT 1 FROM {join_member} m JOIN {join} j ON j.join_id = m.join_id WHERE m.event_id = e.event_id AND j.status = 0))
ORDER BY agenda_at, seq LIMIT ? FOR UPDATE {skip_locked}

-- name: purge
-- Deletes rows of one status that ended before a time, unless they were replayed meanwhile; locks the rows.
DELETE FROM {event} WHERE seq IN ({seqs}) AND agenda = ? AND agenda_at < {now} - INTERVAL ? MICROSECOND

-- name: purge_any_find
-- Rows that were written before a time, whatever their status; locks the rows, skips rows locked by others
-- where the server supports it. Leaves out dead events that hold a group and steps of open joins.
SELECT seq, event_id FROM {event} e WHERE created_at < {now} - INTERVAL ? MICROSECOND
    AND NOT EXISTS (SELECT 1 FROM {group} g WHERE g.event_id = e.event_id)
    AND (e.joined IS NULL OR NOT EXISTS (
        SELECT 1 FROM {join_member} m JOIN {join} j ON j.join_id = m.join_id WHERE m.event_id = e.event_id AND j.status = 0))
LIMIT ? FOR UPDATE {skip_locked}

-- name: purge_any
-- Deletes rows that were written before a time, whatever their status; locks the rows.
DELETE FROM {event} WHERE seq IN ({seqs}) AND created_at < {now} - INTERVAL ? MICROSECOND

-- name: purge_turn
-- Takes the purge lock of this outbox without waiting, if it is free; held until it is
-- released or the session ends.
SELECT get_lock(concat('pillarbox.purge.', left(sha2(concat(database(), '.', {meta_name}), 256), 32)), 0)

-- name: purge_turn_over
-- Releases the purge lock.
SELECT release_lock(concat('pillarbox.purge.', left(sha2(concat(database(), '.', {meta_name}), 256), 32)))

-- name: audit
-- Adds audit entries.
INSERT INTO {audit} (at, actor, action, target) VALUES {rows}

-- name: audits
-- The latest audit entries; no lock.
SELECT at, actor, action, target FROM {audit} ORDER BY id DESC LIMIT ?
