-- Marks messages as steps of joins, so that settles look for their members; this transaction has locked them.
UPDATE {event} FORCE INDEX (PRIMARY) SET joined = 1 WHERE seq IN ({seqs}) AND joined IS NULL
