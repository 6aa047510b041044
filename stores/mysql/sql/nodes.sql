-- All nodes in the order they joined, and how many slots each holds; no lock. The node's own columns come last, as tables of an
-- earlier release have no state.
SELECT node_id, label, lane, joined_at, expires_at, (SELECT count(*) FROM {slot} WHERE holder = node_id), utc_timestamp(6), n.*
FROM {node} n ORDER BY joined_at, node_id
