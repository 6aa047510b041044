-- The place of one item; under the write lock.
SELECT rowid FROM {event} WHERE id = ?1
