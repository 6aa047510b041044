-- Frees drained slots of groups, of those this node holds; under the membership lock.
UPDATE {slot} SET holder = NULL, suspect = 0 WHERE slot IN ({seqs}) AND slot < 64 AND holder = ?
