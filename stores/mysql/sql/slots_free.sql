-- Frees everything that a node holds; under the membership lock.
UPDATE {slot} SET holder = NULL, suspect = ? WHERE holder = ?
