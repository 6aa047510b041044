-- Marks one message as a step of a join, so that settles look for its members; under the write lock.
UPDATE {event} SET joined = 1 WHERE event_id = ?1 AND joined IS NULL
