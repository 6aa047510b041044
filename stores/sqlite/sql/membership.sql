-- Nodes, their heartbeats, and the slots they hold.

-- name: nodes
-- All nodes in the order they registered, with the number of slots each holds; no lock. n.* comes last
-- because tables of an earlier release have no state column.
SELECT node_id, label, lane, joined_at, expires_at, (SELECT count(*) FROM {slot} WHERE holder = node_id), n.*
FROM {node} n ORDER BY joined_at, node_id

-- name: slots
-- Slots with their holders and quarantines; no lock.
SELECT slot, holder, suspect, evictions, quarantined_upto FROM {slot} ORDER BY slot

-- name: node_register
-- Adds a node; fails if it exists; under the write lock.
INSERT INTO {node} (node_id, label, lane, joined_at, expires_at) VALUES (?1, ?2, ?3, ?4, ?5)

-- name: node_renew
-- Renews the lease of a node, if it exists; under the write lock.
UPDATE {node} SET expires_at = ?2 WHERE node_id = ?1

-- name: node_expired
-- Nodes whose lease has expired, except the one that is renewing; under the write lock.
SELECT node_id FROM {node} WHERE expires_at <= ?1 AND node_id <> ?2

-- name: node_delete
-- Removes a node; under the write lock, so it waits for settles in flight.
DELETE FROM {node} WHERE node_id = ?1

-- name: node_publish
-- Publishes the state of a node, if it exists; under the write lock.
UPDATE {node} SET state = ?2 WHERE node_id = ?1

-- name: slot_take
-- Gives a slot or lane to a node; under the write lock.
INSERT INTO {slot} (slot, holder, suspect) VALUES (?1, ?2, 0)
ON CONFLICT (slot) DO UPDATE SET holder = excluded.holder, suspect = 0

-- name: slot_release
-- Frees a drained slot, if this node holds it; under the write lock.
UPDATE {slot} SET holder = NULL, suspect = 0 WHERE slot = ?1 AND holder = ?2

-- name: slot_drop
-- Deletes a drained lane, if this node holds it; under the write lock.
DELETE FROM {slot} WHERE slot = ?1 AND holder = ?2

-- name: slot_trust
-- Ends the quarantine of a slot, if this node holds it; under the write lock.
UPDATE {slot} SET evictions = 0, quarantined_upto = 0 WHERE slot = ?1 AND holder = ?2

-- name: slots_free
-- Frees all slots of a node that leaves; under the write lock.
UPDATE {slot} SET holder = NULL, suspect = 0 WHERE holder = ?1

-- name: slots_evict
-- Frees all slots of an evicted node and quarantines the rows pending there; under the write lock.
UPDATE {slot} SET holder = NULL, suspect = 1, evictions = evictions + 1,
    quarantined_upto = (SELECT coalesce(max(seq), 0) FROM {event} WHERE status IN (0, 2))
WHERE holder = ?1

-- name: slots_sweep
-- Adds lanes that have pending rows and no holder, so that nodes can take them; under the write lock.
INSERT OR IGNORE INTO {slot} (slot)
SELECT DISTINCT slot FROM {event} INDEXED BY {event_pending} WHERE {pending} AND slot >= 64

-- name: first_pending
-- When the first pending row was written, in the slots of a mask and the lanes of a list, above a sequence
-- number; no lock.
SELECT created_at FROM {event} INDEXED BY {event_pending}
WHERE {pending} AND seq > ?1
    AND ((slot BETWEEN 0 AND 63 AND (?2 >> slot) & 1) OR slot IN (SELECT value FROM json_each(?3)))
ORDER BY seq LIMIT 1
