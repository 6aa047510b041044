-- Nodes, their heartbeats, and the slots they hold.

-- name: membership_lock
-- Makes registering, rearranging and leaving wait for each other until the transaction ends; locks one row.
SELECT value, utc_timestamp(6) FROM {meta} WHERE name = 'membership' FOR UPDATE

-- name: nodes
-- All nodes in the order they registered, with the number of slots each holds; no lock. n.* comes last
-- because tables of an earlier release have no state column.
SELECT node_id, label, lane, joined_at, expires_at, (SELECT count(*) FROM {slot} WHERE holder = node_id), utc_timestamp(6), n.*
FROM {node} n ORDER BY joined_at, node_id

-- name: slots
-- Slots with their holders and quarantines; no lock.
SELECT slot, holder, suspect, evictions, quarantined_upto FROM {slot} ORDER BY slot

-- name: node_register
-- Adds a node; fails if it exists; under the membership lock.
INSERT INTO {node} (node_id, label, lane, joined_at, expires_at) VALUES (?, ?, ?, {now}, {now} + INTERVAL ? MICROSECOND)

-- name: node_renew
-- Renews the lease of a node, if it exists; locks its row.
UPDATE {node} SET expires_at = {now} + INTERVAL ? MICROSECOND WHERE node_id = ?

-- name: node_leave
-- Removes a node that leaves; waits for its settles in flight; under the membership lock.
DELETE FROM {node} WHERE node_id = ?

-- name: node_evict
-- Removes a node whose lease has expired; waits for its settles in flight; under the membership lock.
DELETE FROM {node} WHERE node_id = ? AND expires_at <= ?

-- name: node_publish
-- Publishes the state of a node, if it exists; locks its row.
UPDATE {node} SET state = ? WHERE node_id = ?

-- name: slots_take
-- Gives slots and lanes to a node; under the membership lock.
INSERT INTO {slot} (slot, holder) VALUES {rows} ON DUPLICATE KEY UPDATE holder = VALUES(holder), suspect = 0

-- name: slots_release
-- Frees drained slots that this node holds; under the membership lock.
UPDATE {slot} SET holder = NULL, suspect = 0 WHERE slot IN ({seqs}) AND slot < 64 AND holder = ?

-- name: slots_drop
-- Deletes drained lanes that this node holds; under the membership lock.
DELETE FROM {slot} WHERE slot IN ({seqs}) AND slot >= 64 AND holder = ?

-- name: slots_free
-- Frees all slots of a node; under the membership lock.
UPDATE {slot} SET holder = NULL, suspect = 0 WHERE holder = ?

-- name: slots_evict
-- Frees all slots of an evicted node and quarantines the rows pending there; under the membership lock.
UPDATE {slot} SET holder = NULL, suspect = 1, evictions = evictions + 1, quarantined_upto = ? WHERE holder = ?

-- name: slots_trust
-- Ends the quarantine of slots that this node holds; under the membership lock.
UPDATE {slot} SET evictions = 0, quarantined_upto = 0 WHERE slot IN ({seqs}) AND holder = ?

-- name: slots_sweep
-- Adds lanes that have pending rows and no holder, so that nodes can take them; under the membership lock.
INSERT IGNORE INTO {slot} (slot) SELECT DISTINCT slot FROM {event} FORCE INDEX (pending) WHERE pending = 1 AND slot >= 64

-- name: pending_upto
-- The highest sequence number of any row, or zero: no pending row has a higher one; no lock. It is not a
-- subquery of slots_evict, because there it would lock rows.
SELECT coalesce(max(seq), 0) FROM {event}

-- name: waiting
-- Whether rows are pending above a sequence number in these slots, when the oldest pending row there was
-- written, and when the next delayed row is due; no lock.
SELECT EXISTS (SELECT 1 FROM {event} FORCE INDEX (pending) WHERE pending = 1 AND seq > ? AND ({slots})),
    (SELECT created_at FROM {event} FORCE INDEX (pending) WHERE pending = 1 AND seq > 0 AND ({slots}) ORDER BY seq LIMIT 1),
    (SELECT agenda_at FROM {event} FORCE INDEX (agenda) WHERE agenda = -1 AND agenda_at IS NOT NULL ORDER BY agenda_at LIMIT 1)
