-- Gives items back that were claimed before a time, or all, but for those that the leader has in hand; locks the rows. The time
-- stays, so that the next claim has a later one.
UPDATE {event} SET status = 'PENDING', created_at = created_at, processed_at = processed_at
WHERE status = 'PROCESSING' AND {old} AND {others} LIMIT ?
