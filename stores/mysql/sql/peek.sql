-- What is written above a number, committed or not: whether rows are being given new numbers, which rows of a list are still there, how many of the next so many numbers have a
-- row, the last number of these and of all, and the pending rows of these slots and of rows that get new numbers; no lock.
-- What was counted in the table is looked for in the table too: its entry in the key of pending rows may still be to come.
SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED;
START TRANSACTION READ ONLY;
SELECT value FROM {meta} WHERE name = 'numbers';
SELECT seq FROM {event} WHERE seq IN ({open});
SELECT count(*), coalesce(max(seq), 0) FROM {event} FORCE INDEX (PRIMARY) WHERE seq > {after} AND seq <= {counted_to};
SELECT coalesce(max(seq), 0) FROM {event};
SELECT seq FROM {event} FORCE INDEX (pending) WHERE pending = 1 AND seq > {after} AND ({slots} OR slot = 32767) ORDER BY seq LIMIT {limit};
SELECT seq FROM {event} FORCE INDEX (PRIMARY)
WHERE seq > {after} AND seq <= {counted_to} AND status IN (0, 2) AND ({slots} OR slot = 32767);
COMMIT
