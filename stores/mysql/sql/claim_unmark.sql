-- Takes the mark from rows that are not claimed after all.
UPDATE {event} FORCE INDEX (PRIMARY) SET locked_by = NULL WHERE seq IN ({seqs})
