-- Frees everything that a node held which has expired, and quarantines what was pending there; under the membership lock.
UPDATE {slot} SET holder = NULL, suspect = 1, evictions = evictions + 1, quarantined_upto = ? WHERE holder = ?
