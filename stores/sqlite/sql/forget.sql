-- Deletes the failed attempts of one event; under the write lock.
DELETE FROM {attempt} WHERE event_id = ?1
