-- Adds a node, unless it is there; under the membership lock.
INSERT INTO {node} (node_id, label, lane, joined_at, expires_at) VALUES ($1, $2, $3, $4, $5 + $6 * interval '1 microsecond')
