-- Drops drained lanes, of those this node holds; under the membership lock.
DELETE FROM {slot} WHERE slot IN ({seqs}) AND slot >= 64 AND holder = ?
