-- Items of any status that were written before a time; under the write lock.
SELECT rowid, id FROM {event} WHERE created_at < ?1 ORDER BY id LIMIT ?2
