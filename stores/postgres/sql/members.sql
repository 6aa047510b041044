-- Nodes in the order they joined, and slots with their holders and what is quarantined; no lock.
SELECT n.ids, n.lanes, n.expiries, s.slots, s.holders, s.suspicions, s.evictions, s.bounds
FROM (SELECT coalesce(array_agg(node_id::text ORDER BY joined_at, node_id), '{}') AS ids,
        coalesce(array_agg(lane ORDER BY joined_at, node_id), '{}') AS lanes,
        coalesce(array_agg(expires_at ORDER BY joined_at, node_id), '{}') AS expiries FROM {node}) n,
    (SELECT coalesce(array_agg(slot ORDER BY slot), '{}') AS slots, coalesce(array_agg(holder::text ORDER BY slot), '{}') AS holders,
        coalesce(array_agg(suspect ORDER BY slot), '{}') AS suspicions, coalesce(array_agg({evictions} ORDER BY slot), '{}') AS evictions,
        coalesce(array_agg({quarantined_upto} ORDER BY slot), '{}') AS bounds FROM {slot}) s
