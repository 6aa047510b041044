-- Frees all slots of a node that has expired; under the write lock.
UPDATE {slot} SET holder = NULL, suspect = 1 WHERE holder = ?1
