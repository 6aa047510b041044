-- How one message of the queue stands; under the write lock.
SELECT status FROM {event} WHERE event_id = ?1 AND lane = -2
