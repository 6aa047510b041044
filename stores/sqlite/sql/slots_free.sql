-- Frees all slots of a node; under the write lock.
UPDATE {slot} SET holder = NULL, suspect = ?2 WHERE holder = ?1
