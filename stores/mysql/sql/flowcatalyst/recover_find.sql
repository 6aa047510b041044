-- Which items are claimed for too long, or all that are, but for those that the leader has in hand; no lock.
SELECT id FROM {event} WHERE status = 'PROCESSING' AND {old} AND {others} LIMIT {limit}
