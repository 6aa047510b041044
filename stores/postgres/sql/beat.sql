-- Renews a node that is there, and tells who is there and who holds what; lock on its row, which settles do not wait for.
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
