-- All nodes in the order they joined, and how many slots each holds; no lock. Tables of an earlier release have no state.
SELECT node_id, label, lane, joined_at, expires_at, (SELECT count(*) FROM {slot} WHERE holder = node_id), clock_timestamp(),
    to_jsonb(n) ->> 'state'
FROM {node} n ORDER BY joined_at, node_id
