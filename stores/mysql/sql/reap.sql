-- Takes the claims off rows that this transaction has locked.
UPDATE {event} FORCE INDEX (PRIMARY) SET locked_by = NULL, locked_at = NULL, locked_until = NULL WHERE seq IN ({seqs})
