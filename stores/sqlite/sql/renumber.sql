-- Moves one row to a new number and lane; under the write lock.
UPDATE {event} SET seq = ?2, lane = ?3 WHERE seq = ?1
