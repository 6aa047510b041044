-- Rows: inserting them, reading pending rows in order, peeking at uncommitted rows, and promoting due rows.

-- name: insert
-- Inserts rows in the given order; locks only the new rows, in the caller's transaction.
INSERT INTO {event} ({text_columns}, occurred_at, created_at, due_at, expires_at, available_at, lane, payload_bytes) VALUES {rows}

-- name: written
-- Rows that have these message ids, in their latest state; share locks on the rows, in
-- the caller's transaction.
SELECT event_id, seq, lane, message_id FROM {event} FORCE INDEX (message_id) WHERE message_id IN ({ids}) LOCK IN SHARE MODE

-- name: written_ids
-- Rows that have these event ids; no lock.
SELECT event_id, seq, lane FROM {event} FORCE INDEX (event_id) WHERE event_id IN ({ids})

-- name: alive
-- Fails on a lost connection; no lock.
SELECT 1

-- name: fetch_slots
-- Pending rows of slot ranges above a sequence number; no lock.
SELECT {light_columns}, left(last_error, 4000) AS last_error, {now} AS `now`, {left_out} FROM {event} FORCE INDEX (pending)
WHERE pending = 1 AND seq > ? AND ({slots})
ORDER BY seq LIMIT ?

-- name: fetch_group
-- Pending rows of one group from a sequence number on; no lock.
SELECT {light_columns}, left(last_error, 4000) AS last_error, {now} AS `now`, {left_out} FROM {event} FORCE INDEX (pending)
WHERE pending = 1 AND seq >= ? AND slot = ? AND {group_key} = ?
ORDER BY seq LIMIT ?

-- name: fetch_due
-- Due rows outside the queue that have no live claim; no lock.
SELECT {light_columns}, left(last_error, 4000) AS last_error, {now} AS `now`, {left_out} FROM {event} FORCE INDEX (pending)
WHERE pending = 1 AND slot <> -2 AND available_at <= {now} AND (locked_until IS NULL OR locked_until <= {now})
    AND created_at <= {youngest}
ORDER BY seq LIMIT ?

-- name: fetch_large
-- Pending rows by sequence number, with contents up to the size limit of a single row; no lock.
SELECT {light_columns}, left(last_error, 4000) AS last_error, {now} AS `now`, {left_out} FROM {event} FORCE INDEX (PRIMARY) WHERE seq IN ({seqs}) AND pending = 1

-- name: clock
-- The database's current time; no lock.
SELECT utc_timestamp(6)

-- name: committed
-- How many sequence numbers of a range are committed, and the highest of them; no lock.
SELECT count(*), coalesce(max(seq), 0) FROM {event} FORCE INDEX (PRIMARY) WHERE seq > ? AND seq <= ?

-- name: next_number
-- The next sequence number that the table will assign; no lock.
SELECT CAST(auto_increment AS SIGNED) FROM information_schema.tables WHERE table_schema = database() AND table_name = {event_name}

-- name: peek
-- Rows above a sequence number, committed or not; no lock. In this order: whether a renumbering is in
-- progress, which rows of a list still exist, how many of the counted numbers have a row and the highest of
-- them, the highest number of all, and the pending rows of these slots with the placeholders of a
-- renumbering. The rows within the counted range are also read from the table itself, because a row that was
-- counted there may not have its entry in the index of pending rows yet.
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

-- name: numbers
-- The committed sequence numbers above one, in order, where uncommitted rows cannot be read; no lock.
SELECT seq FROM {event} FORCE INDEX (PRIMARY) WHERE seq > {after} ORDER BY seq LIMIT {limit}

-- name: number_open
-- Fails if another transaction has locked this sequence number, as one does that has written its row; locks the
-- row if it exists.
SELECT 1 FROM {event} WHERE seq = {seq} FOR UPDATE NOWAIT

-- name: next_due
-- When the next delayed row is due; no lock.
SELECT agenda_at FROM {event} FORCE INDEX (agenda) WHERE agenda = -1 AND agenda_at IS NOT NULL ORDER BY agenda_at LIMIT 1

-- name: later_due
-- When the next delayed row after a time is due; no lock.
SELECT agenda_at FROM {event} FORCE INDEX (agenda) WHERE agenda = -1 AND agenda_at > {now} ORDER BY agenda_at LIMIT 1

-- name: promote_find
-- Due rows among the delayed ones, by due time; locks the rows, skips rows locked by others
-- where the server supports it.
SELECT seq, event_id, lane, {group_key} IS NOT NULL FROM {event} FORCE INDEX (agenda)
WHERE agenda = -1 AND agenda_at <= {now} ORDER BY agenda_at, seq LIMIT ? FOR UPDATE {skip_locked}

-- name: draw
-- Draws sequence numbers by inserting placeholder rows, which later make way for moved
-- rows; locks the new rows.
INSERT INTO {event} (event_id, event_type, lane) VALUES {rows}

-- name: renumber_begin
-- Makes renumberings wait for each other until the transaction ends. The mark tells peeks that numbers they
-- have seen may have no row for a moment; locks one row.
UPDATE {meta} SET value = 1 WHERE name = 'numbers'

-- name: renumber
-- Moves rows that this transaction has locked to the sequence numbers it has drawn, and sets their lanes;
-- locks the rows, and all sequence numbers for the duration of the update. The short lock timeout makes it
-- fail instead of waiting, so it neither blocks others for long nor deadlocks.
SET SESSION innodb_lock_wait_timeout = {impatient};
DELETE e FROM {event} e FORCE INDEX (PRIMARY) WHERE e.seq IN ({drawn});
UPDATE {event} FORCE INDEX (PRIMARY) SET lane = CASE seq {lanes} END, seq = CASE seq {numbers} END WHERE seq IN ({seqs});
UPDATE {meta} SET value = 0 WHERE name = 'numbers';
SET SESSION innodb_lock_wait_timeout = {patient}

-- name: renumber_save
-- Marks the state before rows move, and makes what follows fail instead of waiting; no lock.
SAVEPOINT renumber;
SET SESSION innodb_lock_wait_timeout = {impatient}

-- name: renumber_undo
-- Undoes a renumbering that failed; no lock.
ROLLBACK TO SAVEPOINT renumber;
SET SESSION innodb_lock_wait_timeout = {patient}
