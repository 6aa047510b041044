-- Which items wait, in the order of group, time and id; no lock.
SELECT id, message_group FROM {event} {by_status} WHERE status = 'PENDING' AND {within}
ORDER BY message_group, created_at, id LIMIT {limit}
