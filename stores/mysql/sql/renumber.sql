-- Gives rows that this transaction has locked the numbers it has drawn, and their lanes; locks on the rows, and for the moment of the
-- update on all numbers. It gives up at once where it would wait, so that it is in nobody's way for long and in no deadlock.
SET SESSION innodb_lock_wait_timeout = {impatient};
DELETE FROM {event} WHERE seq IN ({drawn});
UPDATE {event} FORCE INDEX (PRIMARY) SET lane = CASE seq {lanes} END, seq = CASE seq {numbers} END WHERE seq IN ({seqs});
UPDATE {meta} SET value = 0 WHERE name = 'numbers';
SET SESSION innodb_lock_wait_timeout = {patient}
