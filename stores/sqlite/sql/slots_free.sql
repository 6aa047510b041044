-- Frees all slots of a node that has stopped; under the write lock.
UPDATE {slot} SET holder = NULL, suspect = 0 WHERE holder = ?1
