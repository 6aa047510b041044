-- All nodes in the order they joined, and how many slots each holds; no lock.
SELECT node_id, label, lane, joined_at, expires_at, (SELECT count(*) FROM {slot} WHERE holder = node_id), utc_timestamp(6)
FROM {node} ORDER BY joined_at, node_id
