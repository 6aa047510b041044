-- Nodes, their heartbeats, and the slots they hold.

-- name: membership_lock
-- Makes joining, renewing and leaving exclusive against each other until the transaction ends.
SELECT value, utc_timestamp(6) FROM {meta} WHERE name = 'membership' FOR UPDATE

-- name: nodes
-- All nodes in the order they joined, and how many slots each holds; no lock. The node's own columns come last, as tables of an
-- earlier release have no state.
SELECT node_id, label, lane, joined_at, expires_at, (SELECT count(*) FROM {slot} WHERE holder = node_id), utc_timestamp(6), n.*
FROM {node} n ORDER BY joined_at, node_id

-- name: slots
-- Slots with their holders and what is quarantined; no lock.
SELECT slot, holder, suspect, evictions, quarantined_upto FROM {slot} ORDER BY slot

-- name: node_join
-- Adds a node, unless it is there; under the membership lock.
INSERT INTO {node} (node_id, label, lane, joined_at, expires_at) VALUES (?, ?, ?, {now}, {now} + INTERVAL ? MICROSECOND)

-- name: node_renew
-- Renews a node that is there; lock on its row.
UPDATE {node} SET expires_at = {now} + INTERVAL ? MICROSECOND WHERE node_id = ?

-- name: node_leave
-- Removes a node that has stopped; waits for its settles in flight; under the membership lock.
DELETE FROM {node} WHERE node_id = ?

-- name: node_evict
-- Removes a node that has expired; waits for its settles in flight; under the membership lock.
DELETE FROM {node} WHERE node_id = ? AND expires_at <= ?

-- name: node_publish
-- Tells the state of a node that is there; lock on its row.
UPDATE {node} SET state = ? WHERE node_id = ?

-- name: slots_take
-- Gives slots and lanes to a node; under the membership lock.
INSERT INTO {slot} (slot, holder) VALUES {rows} ON DUPLICATE KEY UPDATE holder = VALUES(holder), suspect = 0

-- name: slots_release
-- Frees drained slots of groups, of those this node holds; under the membership lock.
UPDATE {slot} SET holder = NULL, suspect = 0 WHERE slot IN ({seqs}) AND slot < 64 AND holder = ?

-- name: slots_drop
-- Drops drained lanes, of those this node holds; under the membership lock.
DELETE FROM {slot} WHERE slot IN ({seqs}) AND slot >= 64 AND holder = ?

-- name: slots_free
-- Frees everything that a node holds; under the membership lock.
UPDATE {slot} SET holder = NULL, suspect = 0 WHERE holder = ?

-- name: slots_evict
-- Frees everything that a node held which has expired, and quarantines what was pending there; under the membership lock.
UPDATE {slot} SET holder = NULL, suspect = 1, evictions = evictions + 1, quarantined_upto = ? WHERE holder = ?

-- name: slots_trust
-- Ends the quarantine of slots, of those this node holds; under the membership lock.
UPDATE {slot} SET evictions = 0, quarantined_upto = 0 WHERE slot IN ({seqs}) AND holder = ?

-- name: slots_sweep
-- Makes lanes that have pending rows but no holder free to be taken; under the membership lock.
INSERT IGNORE INTO {slot} (slot) SELECT DISTINCT slot FROM {event} FORCE INDEX (pending) WHERE pending = 1 AND slot >= 64

-- name: pending_upto
-- The highest number of a row, pending or not, or zero: no pending row has a higher one. Apart from the statement that keeps it, which
-- would lock rows of others; no lock.
SELECT coalesce(max(seq), 0) FROM {event}

-- name: waiting
-- Whether rows wait above a number in these slots, when the oldest there was written, when the next delayed one is due; no lock.
SELECT EXISTS (SELECT 1 FROM {event} FORCE INDEX (pending) WHERE pending = 1 AND seq > ? AND ({slots})),
    (SELECT created_at FROM {event} FORCE INDEX (pending) WHERE pending = 1 AND seq > 0 AND ({slots}) ORDER BY seq LIMIT 1),
    (SELECT agenda_at FROM {event} FORCE INDEX (agenda) WHERE agenda = -1 AND agenda_at IS NOT NULL ORDER BY agenda_at LIMIT 1)
