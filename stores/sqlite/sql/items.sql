-- All statements for a table of items (the flowcatalyst layout), whose rows have no sequence numbers.

-- name: create_items
-- The table of items as documented by flowcatalyst.
CREATE TABLE IF NOT EXISTS {event} (
    id VARCHAR(13) PRIMARY KEY,
    type VARCHAR(20) NOT NULL,
    message_group VARCHAR(255),
    payload TEXT NOT NULL,
    status VARCHAR(20) NOT NULL,
    retry_count INT NOT NULL DEFAULT 0,
    created_at TIMESTAMP NOT NULL,
    processed_at TIMESTAMP,
    error_message TEXT
);

CREATE INDEX IF NOT EXISTS {event_status}
    ON {event}(status, message_group, created_at);

-- name: create_beside
-- The tables beside a table of items: leadership, held groups, audit entries, and dead items that are too large to be
-- rewritten. Times are microseconds since 1970 UTC, but for those of items.
CREATE TABLE IF NOT EXISTS {node} (
    node_id    TEXT    PRIMARY KEY NOT NULL,
    label      TEXT    NOT NULL,
    lane       INTEGER NOT NULL,
    joined_at  INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    state      TEXT
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS {slot} (
    slot    INTEGER PRIMARY KEY,
    holder  TEXT,
    suspect INTEGER NOT NULL DEFAULT 0
);
INSERT OR IGNORE INTO {slot} (slot) VALUES (0);

CREATE TABLE IF NOT EXISTS {group} (
    group_key TEXT    PRIMARY KEY NOT NULL,
    state     TEXT    NOT NULL CHECK (state IN ('blocked', 'paused')),
    event_id  TEXT,
    reason    TEXT,
    held_by   TEXT    NOT NULL,
    since     INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS {audit} (
    id     INTEGER PRIMARY KEY,
    at     INTEGER NOT NULL,
    actor  TEXT    NOT NULL,
    action TEXT    NOT NULL,
    target TEXT    NOT NULL
);

CREATE TABLE IF NOT EXISTS {meta} (
    name  TEXT    PRIMARY KEY NOT NULL,
    value INTEGER NOT NULL
) WITHOUT ROWID;
INSERT OR IGNORE INTO {meta} (name, value) VALUES ('items_version', 1), ('groups_epoch', 0);

CREATE TABLE IF NOT EXISTS {oversized} (
    id            TEXT    PRIMARY KEY NOT NULL,
    bytes         INTEGER NOT NULL,
    retry_count   INTEGER,
    processed_at  TEXT    NOT NULL,
    error_message TEXT    NOT NULL
) WITHOUT ROWID;

-- name: version
-- The version of the tables beside the items; no lock. Its name differs from that of the native layout, so
-- that the layouts can be told apart.
SELECT value FROM {meta} WHERE name = 'items_version'

-- name: lacking
-- The columns that the table of items lacks; no lock.
SELECT value FROM json_each('["id","type","message_group","payload","status","retry_count","created_at","processed_at","error_message"]')
WHERE value NOT IN (SELECT lower(name) FROM pragma_table_info({event_name}))

-- name: insert
-- Inserts one item; under the caller's write lock.
INSERT INTO {event} (id, type, message_group, payload, status, retry_count, created_at) VALUES (?1, ?2, ?3, ?4, 'PENDING', 0, ?5)

-- name: locate
-- The rowid of one item; under the write lock.
SELECT rowid FROM {event} WHERE id = ?1

-- name: item
-- The item with a rowid, without contents above the size limit of a row; no lock.
SELECT {light_columns}, {left_out} FROM {event} WHERE rowid = ?2

-- name: leads
-- Whether a node is registered and holds the leader's slot; under the write lock, which
-- makes this check a fence.
SELECT EXISTS (SELECT 1 FROM {slot} s JOIN {node} n ON n.node_id = s.holder WHERE s.slot = 0 AND n.node_id = ?1)

-- name: group_first
-- The first group that has pending items; under the write lock.
SELECT message_group FROM {event} WHERE status = 'PENDING' AND message_group IS NOT NULL ORDER BY message_group LIMIT 1

-- name: group_next
-- The next group after a key that has pending items; under the write lock.
SELECT message_group FROM {event} WHERE status = 'PENDING' AND message_group > ?1 ORDER BY message_group LIMIT 1

-- name: take
-- The rowids of the first pending items of one group, or of the items without a group; under the write lock.
SELECT rowid FROM {event}
WHERE status = 'PENDING' AND message_group IS ?1 AND typeof(id) = 'text' AND NOT {aside}
ORDER BY created_at, id LIMIT ?2

-- name: mark_taken
-- Marks one item as taken, at a time that is its token, unless it was not loaded and is too large to be rewritten; under
-- the write lock.
UPDATE {event} SET status = 'PROCESSING', processed_at = ?2 WHERE rowid = ?1 AND (?3 OR NOT {is_large})

-- name: recover
-- Releases items that were claimed before a time, or all claimed items, except those that the leader has in
-- flight; under the write lock.
UPDATE {event} SET status = 'PENDING'
WHERE rowid IN (
    SELECT rowid FROM {event}
    WHERE status = 'PROCESSING' AND (?1 IS NULL OR coalesce(processed_at, created_at) < ?1)
        AND id NOT IN (SELECT value FROM json_each(?2))
    LIMIT ?3)

-- name: done
-- Marks one claimed item completed; under the write lock.
UPDATE {event} SET status = 'COMPLETED', processed_at = max(?3, processed_at), error_message = NULL
WHERE id = ?1 AND status = 'PROCESSING' AND processed_at = ?2

-- name: done_delete
-- Deletes one claimed item that is done; under the write lock.
DELETE FROM {event} WHERE id = ?1 AND status = 'PROCESSING' AND processed_at = ?2

-- name: retry
-- Releases one claimed item for another attempt; under the write lock.
UPDATE {event} SET status = 'PENDING', error_message = ?3, retry_count = ?4
WHERE id = ?1 AND status = 'PROCESSING' AND processed_at = ?2

-- name: dead
-- Marks one claimed item failed; under the write lock.
UPDATE {event}
SET status = 'FAILED', processed_at = max(?5, processed_at), error_message = ?3, retry_count = ?4
WHERE id = ?1 AND status = 'PROCESSING' AND processed_at = ?2

-- name: set_aside
-- Records that one item is dead that was not taken because it is too large to be rewritten; under the write lock.
INSERT OR REPLACE INTO {oversized} (id, bytes, retry_count, processed_at, error_message)
SELECT id, ifnull(octet_length(payload), 0), ?2, ?3, ?4 FROM {event}
WHERE id = ?1 AND {is_large} AND status = 'PENDING' AND NOT {aside}

-- name: attempt
-- Counts an attempt on one claimed item before it is made; under the write lock.
UPDATE {event} SET retry_count = ?3 WHERE id = ?1 AND status = 'PROCESSING' AND processed_at = ?2

-- name: waits
-- Records why one claimed item is waiting; under the write lock.
UPDATE {event} SET error_message = ?3 WHERE id = ?1 AND status = 'PROCESSING' AND processed_at = ?2

-- name: release
-- Releases one claimed item untried; under the write lock.
UPDATE {event} SET status = 'PENDING', retry_count = coalesce(?3, retry_count) WHERE id = ?1 AND status = 'PROCESSING' AND processed_at = ?2

-- name: remembers
-- Always false, because items have no attempt history; no lock.
SELECT false

-- name: slots
-- Slots with their holders; no lock. Without sequence numbers there is no quarantine.
SELECT slot, holder, suspect, 0, 0 FROM {slot} ORDER BY slot

-- name: slot_trust
-- Clears the suspect mark of a slot that this node holds, because this layout has no
-- quarantine; under the write lock.
UPDATE {slot} SET suspect = 0 WHERE slot = ?1 AND holder = ?2

-- name: slots_evict
-- Frees all slots of an evicted node; under the write lock.
UPDATE {slot} SET holder = NULL, suspect = 1 WHERE holder = ?1

-- name: slots_sweep
-- Does nothing, because this layout has no lanes; under the write lock.
UPDATE {slot} SET slot = slot WHERE false

-- name: first_pending
-- When the first pending item was written, if slot 0 is in the mask; no lock.
SELECT created_at FROM {event} WHERE status = 'PENDING' AND ?1 IS NOT NULL AND ?2 & 1 AND ?3 IS NOT NULL AND NOT {aside}
ORDER BY message_group, created_at LIMIT 1

-- name: next_due
-- Always NULL, because this layout has no delayed rows; no lock.
SELECT NULL

-- name: dead_matching
-- Failed items of a selection, oldest first; under the write lock.
SELECT rowid, id, NULL FROM {selected} AND {state} = 'FAILED' ORDER BY created_at, id LIMIT ?7

-- name: revive
-- Makes one failed item pending again; under the write lock. processed_at stays, so that the
-- next claim gets a later one.
UPDATE {event} SET status = 'PENDING', retry_count = 0, error_message = NULL
WHERE rowid = ?1 AND status = 'FAILED' AND ?2 IS NOT NULL

-- name: restore
-- Forgets that one item was set aside; under the write lock.
DELETE FROM {oversized} WHERE id = (SELECT id FROM {event} WHERE rowid = ?1)

-- name: discard
-- Deletes one failed item; under the write lock.
DELETE FROM {event} WHERE rowid = ?1 AND {state} = 'FAILED'

-- name: clear
-- Forgets items that were set aside and are gone; under the write lock.
DELETE FROM {oversized} WHERE NOT EXISTS (SELECT 1 FROM {event} WHERE {event}.id = {oversized}.id)

-- name: cancellable
-- One item that is not claimed; under the write lock.
SELECT rowid, false FROM {event} WHERE id = ?1 AND {state} = 'PENDING' AND ?2 IS NOT NULL

-- name: ended
-- Items of one status that ended before a time, or were written before it if their end is not recorded; under
-- the write lock. Leaves out dead items that hold a group.
SELECT rowid, id FROM {event}
WHERE status = CASE ?1 WHEN 1 THEN 'COMPLETED' ELSE 'FAILED' END AND coalesce(processed_at, created_at) < ?2
    AND (?1 = 1 OR {free})
UNION ALL
SELECT rowid, id FROM {event}
WHERE ?1 = 3 AND id IN (SELECT id FROM {oversized} WHERE processed_at < ?2) AND {aside} AND {free}
LIMIT ?3

-- name: written_before
-- Items that were written before a time, whatever their status; under the write lock. Leaves out dead items that
-- hold a group.
SELECT rowid, id FROM {event} WHERE created_at < ?1 AND {free} ORDER BY id LIMIT ?2

-- name: purge
-- Deletes one item that ended before a time, unless it was replayed meanwhile; under the write lock.
DELETE FROM {event}
WHERE rowid = ?1 AND {state} = CASE ?2 WHEN 1 THEN 'COMPLETED' ELSE 'FAILED' END
    AND coalesce({processed_at}, created_at) < ?3

-- name: purge_any
-- Deletes one item that was written before a time, whatever its status; under the write lock.
DELETE FROM {event} WHERE rowid = ?1 AND created_at < ?2

-- name: list
-- A page of items by id in ascending order, with or without contents; no lock.
SELECT {listed_columns} FROM {selected} AND (?7 IS NULL OR id > ?7) ORDER BY id LIMIT ?8

-- name: list_newest
-- A page of items by id in descending order, with or without contents; no lock.
SELECT {listed_columns} FROM {selected} AND (?7 IS NULL OR id < ?7) ORDER BY id DESC LIMIT ?8

-- name: show
-- One item, without contents if it was set aside for its size; no lock.
SELECT {shown_columns} FROM {event} WHERE id = ?1

-- name: stats_pending
-- Counts of pending and claimed items, and when the oldest pending item was written; no lock.
SELECT count(*) FILTER (WHERE retry_count <= 0), count(*) FILTER (WHERE retry_count > 0), 0, 0, 0,
    min(created_at) FILTER (WHERE status = 'PENDING' AND ?1 IS NOT NULL)
FROM {event} WHERE status IN ('PENDING', 'PROCESSING') AND NOT {aside}

-- name: stats_ended
-- Counts of completed and failed items, and of items completed after a time; no lock.
SELECT count(*) FILTER (WHERE status = 'COMPLETED'),
    count(*) FILTER (WHERE status = 'FAILED') + (SELECT count(*) FROM {event} WHERE id IN (SELECT id FROM {oversized}) AND {aside}), 0, 0,
    count(*) FILTER (WHERE status = 'COMPLETED' AND processed_at > ?1)
FROM {event} WHERE status IN ('COMPLETED', 'FAILED')

-- name: stats_written
-- When items were written, newest first, for a reader that stops early; no lock.
SELECT created_at FROM {event} ORDER BY id DESC

-- name: stats_dead
-- Failed items by type, most frequent first; no lock.
SELECT type, count(*) FROM {event} WHERE {dead} GROUP BY type ORDER BY count(*) DESC, type
