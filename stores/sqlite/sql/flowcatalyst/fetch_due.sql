-- Where items are that wait, in the order of group, time and id; no lock. A sort must not hold their contents.
SELECT rowid FROM {event}
WHERE status = 'PENDING' AND created_at <= ?1 AND typeof(id) = 'text'
ORDER BY message_group, created_at, id LIMIT ?2
