-- Where the first items of one group, or of none, are that wait; under the write lock.
SELECT rowid FROM {event}
WHERE status = 'PENDING' AND message_group IS ?1 AND typeof(id) = 'text'
ORDER BY created_at, id LIMIT ?2
