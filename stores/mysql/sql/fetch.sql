-- Reading pending rows in order, the horizon of a read, and promoting rows that have become due.

-- name: fetch_slots
-- Pending rows of ranges of slots above a number; no lock.
SELECT {light_columns}, {now} AS `now`, {left_out} FROM {event} FORCE INDEX (pending)
WHERE pending = 1 AND seq > ? AND ({slots})
ORDER BY seq LIMIT ?

-- name: fetch_group
-- Pending rows of one group from a number on; no lock.
SELECT {light_columns}, {now} AS `now`, {left_out} FROM {event} FORCE INDEX (pending)
WHERE pending = 1 AND seq >= ? AND slot = ? AND {group_key} = ?
ORDER BY seq LIMIT ?

-- name: fetch_due
-- Pending rows that are due and under no live claim, but those of the queue; no lock.
SELECT {light_columns}, {now} AS `now`, {left_out} FROM {event} FORCE INDEX (pending)
WHERE pending = 1 AND slot <> -2 AND available_at <= {now} AND (locked_until IS NULL OR locked_until <= {now})
    AND created_at <= {youngest}
ORDER BY seq LIMIT ?

-- name: fetch_large
-- Pending rows by their numbers, with contents up to what a row may have; no lock.
SELECT {light_columns}, {now} AS `now`, {left_out} FROM {event} FORCE INDEX (PRIMARY) WHERE seq IN ({seqs}) AND pending = 1

-- name: clock
-- The database's now; no lock.
SELECT utc_timestamp(6)

-- name: committed
-- How many of the numbers of a range are committed, and the last of these; no lock.
SELECT count(*), coalesce(max(seq), 0) FROM {event} FORCE INDEX (PRIMARY) WHERE seq > ? AND seq <= ?

-- name: next_number
-- The next number that the table gives; no lock.
SELECT CAST(auto_increment AS SIGNED) FROM information_schema.tables WHERE table_schema = database() AND table_name = {event_name}

-- name: peek
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

-- name: next_due
-- When the next delayed row is due; no lock.
SELECT agenda_at FROM {event} FORCE INDEX (agenda) WHERE agenda = -1 AND agenda_at IS NOT NULL ORDER BY agenda_at LIMIT 1

-- name: later_due
-- When the next delayed row after a time is due; no lock.
SELECT agenda_at FROM {event} FORCE INDEX (agenda) WHERE agenda = -1 AND agenda_at > {now} ORDER BY agenda_at LIMIT 1

-- name: promote_find
-- Delayed rows that are due, in their order; locks the rows, skips those that others have locked.
SELECT seq, event_id, lane, {group_key} IS NOT NULL FROM {event} FORCE INDEX (agenda)
WHERE agenda = -1 AND agenda_at <= {now} ORDER BY agenda_at, seq LIMIT ? FOR UPDATE {skip_locked}

-- name: draw
-- Draws numbers as an insert does, by rows that hold their places until others move there; locks of new rows.
INSERT INTO {event} (event_id, event_type, lane) VALUES {rows}

-- name: renumber_begin
-- Makes those who give new numbers wait for each other until the transaction ends, and tells readers of what is not committed that
-- numbers which they have seen may be gone for a moment; locks one row.
UPDATE {meta} SET value = 1 WHERE name = 'numbers'

-- name: renumber
-- Gives rows that this transaction has locked the numbers it has drawn, and their lanes; locks on the rows, and for the moment of the
-- update on all numbers. It gives up at once where it would wait, so that it is in nobody's way for long and in no deadlock.
SET SESSION innodb_lock_wait_timeout = {impatient};
DELETE FROM {event} WHERE seq IN ({drawn});
UPDATE {event} FORCE INDEX (PRIMARY) SET lane = CASE seq {lanes} END, seq = CASE seq {numbers} END WHERE seq IN ({seqs});
UPDATE {meta} SET value = 0 WHERE name = 'numbers';
SET SESSION innodb_lock_wait_timeout = {patient}
