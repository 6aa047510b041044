-- Removes nodes that have expired, but the one that is beating, and quarantines what was pending in their slots; waits for their
-- settles in flight; under the membership lock.
WITH buried AS (DELETE FROM {node} WHERE expires_at <= $1 AND node_id <> $2 RETURNING node_id)
UPDATE {slot} s SET holder = NULL, suspect = true, evictions = s.evictions + 1,
    quarantined_upto = (SELECT coalesce(max(seq), 0) FROM {event} WHERE status IN (0, 2))
FROM buried WHERE s.holder = buried.node_id
