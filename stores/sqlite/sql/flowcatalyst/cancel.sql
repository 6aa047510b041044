-- Deletes one item that nobody has claimed; under the write lock.
DELETE FROM {event} WHERE id = ?1 AND status = 'PENDING' AND ?2 IS NOT NULL
RETURNING 0
