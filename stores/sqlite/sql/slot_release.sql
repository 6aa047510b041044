-- Frees a drained slot of groups, if this node holds it; under the write lock.
UPDATE {slot} SET holder = NULL, suspect = 0 WHERE slot = ?1 AND holder = ?2
