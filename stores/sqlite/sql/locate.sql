-- The number of one event; under the write lock.
SELECT seq FROM {event} WHERE event_id = ?1
