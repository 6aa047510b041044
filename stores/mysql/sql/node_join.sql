-- Adds a node, unless it is there; under the membership lock.
INSERT INTO {node} (node_id, label, lane, joined_at, expires_at) VALUES (?, ?, ?, {now}, {now} + INTERVAL ? MICROSECOND)
