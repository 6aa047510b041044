-- The id of one row if it is or was a member of a join; under the write lock.
SELECT event_id FROM {event} WHERE seq = ?1 AND joined IS NOT NULL
