-- Drops a drained lane, if this node holds it; under the write lock.
DELETE FROM {slot} WHERE slot = ?1 AND holder = ?2
