-- Takes the claims off rows that this transaction has locked. When they were made stays, for the next claim.
UPDATE {event} FORCE INDEX (PRIMARY) SET locked_by = NULL, locked_until = NULL WHERE seq IN ({seqs})
