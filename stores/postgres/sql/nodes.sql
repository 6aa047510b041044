-- All nodes in the order they joined, and how many slots each holds; no lock.
SELECT node_id, label, lane, joined_at, expires_at, (SELECT count(*) FROM {slot} WHERE holder = node_id), clock_timestamp()
FROM {node} ORDER BY joined_at, node_id
