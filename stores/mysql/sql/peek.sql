-- What is written above a number, committed or not: how many rows of the next so many, the last number of these and of all, the
-- pending rows of these slots and of rows that get new numbers, and those of a list that are still there; no lock.
SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED;
START TRANSACTION READ ONLY;
SELECT count(*), coalesce(max(seq), 0) FROM {event} FORCE INDEX (PRIMARY) WHERE seq > {after} AND seq <= {counted_to};
SELECT coalesce(max(seq), 0) FROM {event};
SELECT seq FROM {event} FORCE INDEX (pending) WHERE pending = 1 AND seq > {after} AND ({slots} OR slot = 32767) ORDER BY seq LIMIT {limit};
SELECT seq FROM {event} WHERE seq IN ({open});
COMMIT
