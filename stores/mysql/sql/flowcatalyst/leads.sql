-- Whether a node is a member and holds the slot of leadership; share locks on both rows, in the order in which they are changed.
SELECT 1 FROM {node} n STRAIGHT_JOIN {slot} s ON s.slot = 0 AND s.holder = n.node_id WHERE n.node_id = '{node_id}' LOCK IN SHARE MODE
