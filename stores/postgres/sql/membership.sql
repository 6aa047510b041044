-- Nodes, their heartbeats, and the slots they hold.

-- name: membership_lock
-- Makes registering, leaving and heartbeats that rearrange slots exclude each
-- other until the transaction ends.
SELECT pg_advisory_xact_lock(1886153839::bigint << 32 | {node_name}::regclass::oid::bigint)

-- name: members
-- Nodes in the order of registration, and slots with their holders and quarantines; no lock.
SELECT n.ids, n.lanes, n.expiries, s.slots, s.holders, s.suspicions, s.evictions, s.bounds
FROM (SELECT coalesce(array_agg(node_id::text ORDER BY joined_at, node_id), '{}') AS ids,
        coalesce(array_agg(lane ORDER BY joined_at, node_id), '{}') AS lanes,
        coalesce(array_agg(expires_at ORDER BY joined_at, node_id), '{}') AS expiries FROM {node}) n,
    (SELECT coalesce(array_agg(slot ORDER BY slot), '{}') AS slots, coalesce(array_agg(holder::text ORDER BY slot), '{}') AS holders,
        coalesce(array_agg(suspect ORDER BY slot), '{}') AS suspicions, coalesce(array_agg({evictions} ORDER BY slot), '{}') AS evictions,
        coalesce(array_agg({quarantined_upto} ORDER BY slot), '{}') AS bounds FROM {slot}) s

-- name: heartbeat
-- Renews an existing node, and returns all nodes and slots. Locks the node's row in a mode that settles do
-- not wait for.
WITH t AS MATERIALIZED (SELECT coalesce($2, clock_timestamp()) AS now),
me AS (UPDATE {node} SET expires_at = t.now + $3 * interval '1 microsecond' FROM t WHERE node_id = $1 RETURNING 1)
SELECT t.now, EXISTS (SELECT 1 FROM me), n.ids, n.lanes, n.expiries, s.slots, s.holders, s.suspicions, s.evictions, s.bounds,
    (SELECT value FROM {meta} WHERE name = 'groups_epoch' AND value <> $4)
FROM t, (SELECT coalesce(array_agg(node_id::text ORDER BY joined_at, node_id), '{}') AS ids,
        coalesce(array_agg(lane ORDER BY joined_at, node_id), '{}') AS lanes,
        coalesce(array_agg(expires_at ORDER BY joined_at, node_id), '{}') AS expiries FROM {node}) n,
    (SELECT coalesce(array_agg(slot ORDER BY slot), '{}') AS slots, coalesce(array_agg(holder::text ORDER BY slot), '{}') AS holders,
        coalesce(array_agg(suspect ORDER BY slot), '{}') AS suspicions, coalesce(array_agg({evictions} ORDER BY slot), '{}') AS evictions,
        coalesce(array_agg({quarantined_upto} ORDER BY slot), '{}') AS bounds FROM {slot}) s

-- name: node_register
-- Adds a node. Runs under the membership lock.
INSERT INTO {node} (node_id, label, lane, joined_at, expires_at) VALUES ($1, $2, $3, $4, $5 + $6 * interval '1 microsecond')

-- name: node_renew
-- Renews an existing node. Locks its row in a mode that settles do not wait for.
UPDATE {node} SET expires_at = coalesce($2, clock_timestamp()) + $3 * interval '1 microsecond' WHERE node_id = $1

-- name: node_leave
-- Removes a node that has stopped. Waits for its settles in flight. Runs under the membership lock.
WITH gone AS (DELETE FROM {node} WHERE node_id = $1 RETURNING node_id)
UPDATE {slot} s SET holder = NULL, suspect = false FROM gone WHERE s.holder = gone.node_id

-- name: node_left
-- Notifies the other nodes of a node that leaves, at the commit of its leaving.
SELECT pg_notify($1, $2)

-- name: node_evict
-- Removes expired nodes except the one that is renewing, and quarantines the pending rows of their slots.
-- Waits for their settles in flight. Runs under the membership lock.
WITH evicted AS (DELETE FROM {node} WHERE expires_at <= $1 AND node_id <> $2 RETURNING node_id)
UPDATE {slot} s SET holder = NULL, suspect = true, evictions = s.evictions + 1,
    quarantined_upto = (SELECT coalesce(max(seq), 0) FROM {event} WHERE status IN (0, 2))
FROM evicted WHERE s.holder = evicted.node_id

-- name: node_publish
-- Publishes the state of an existing node. Locks its row in a mode that settles do not wait for.
UPDATE {node} SET state = $2 WHERE node_id = $1

-- name: slots_take
-- Gives slots and lanes to a node. Runs under the membership lock.
INSERT INTO {slot} (slot, holder) SELECT s, $2 FROM unnest($1::smallint[]) s
ON CONFLICT (slot) DO UPDATE SET holder = excluded.holder, suspect = false

-- name: slots_release
-- Frees drained shared slots and deletes drained lanes that this node holds. Runs under the membership lock.
WITH dropped AS (DELETE FROM {slot} WHERE slot = ANY($1) AND slot >= 64 AND holder = $2)
UPDATE {slot} SET holder = NULL, suspect = false WHERE slot = ANY($1) AND slot < 64 AND holder = $2

-- name: slots_trust
-- Ends the quarantine of slots that this node holds. Runs under the membership lock.
UPDATE {slot} SET evictions = 0, quarantined_upto = 0 WHERE slot = ANY($1) AND holder = $2

-- name: slots_sweep
-- Adds lanes that have pending rows but no slot row, so that a node can take them.
-- Runs under the membership lock.
INSERT INTO {slot} (slot) SELECT DISTINCT slot FROM {event} WHERE status IN (0, 2) AND slot >= 64
ON CONFLICT (slot) DO NOTHING

-- name: waiting
-- Whether rows wait above a sequence number in the listed slots, the creation time of the oldest pending row
-- there, and the due time of the next delayed row; no lock.
SELECT EXISTS (SELECT 1 FROM {event} WHERE status IN (0, 2) AND seq > $1 AND slot BETWEEN $2 AND $3 AND slot = ANY($4)),
    (SELECT created_at FROM {event} WHERE status IN (0, 2) AND seq > 0 AND slot BETWEEN $2 AND $3 AND slot = ANY($4) ORDER BY seq LIMIT 1),
    (SELECT available_at FROM {event} WHERE status IN (0, 2) AND lane = -1 ORDER BY available_at, seq LIMIT 1)
