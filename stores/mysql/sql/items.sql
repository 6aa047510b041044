-- All statements for a table of items (the flowcatalyst layout), whose rows have no sequence numbers.

-- name: create_items
-- The table of items as documented by flowcatalyst. Some servers make a TIMESTAMP column NOT
-- NULL unless NULL is stated.
CREATE TABLE IF NOT EXISTS {event} (
    id VARCHAR(13) PRIMARY KEY,
    type VARCHAR(20) NOT NULL,
    message_group VARCHAR(255),
    payload TEXT NOT NULL,
    status VARCHAR(20) NOT NULL,
    retry_count INT NOT NULL DEFAULT 0,
    created_at TIMESTAMP NOT NULL,
    processed_at TIMESTAMP NULL DEFAULT NULL,
    error_message TEXT,
    KEY {event_status} (status, message_group, created_at)
);

-- name: create_beside
-- The tables beside a table of items: leadership, held groups, audit entries. Times are UTC.
CREATE TABLE IF NOT EXISTS {node} (
    node_id    varchar(64) NOT NULL PRIMARY KEY,
    label      text        NOT NULL,
    lane       smallint    NOT NULL,
    joined_at  datetime(6) NOT NULL,
    expires_at datetime(6) NOT NULL,
    state      text
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 {by_bytes};

CREATE TABLE IF NOT EXISTS {slot} (
    slot    smallint NOT NULL PRIMARY KEY,
    holder  varchar(64),
    suspect tinyint  NOT NULL DEFAULT 0
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 {by_bytes};
INSERT IGNORE INTO {slot} (slot) VALUES (0);

CREATE TABLE IF NOT EXISTS {group} (
    group_key varchar(511) NOT NULL PRIMARY KEY,
    state     varchar(16)  NOT NULL CHECK (state IN ('blocked', 'paused')),
    event_id  varchar(255),
    reason    text,
    held_by   text         NOT NULL,
    since     datetime(6)  NOT NULL,
    KEY event_id (event_id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 {by_bytes};

CREATE TABLE IF NOT EXISTS {audit} (
    id     bigint      NOT NULL AUTO_INCREMENT PRIMARY KEY,
    at     datetime(6) NOT NULL,
    actor  text        NOT NULL,
    action text        NOT NULL,
    target text        NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 {by_bytes};

CREATE TABLE IF NOT EXISTS {meta} (
    name  varchar(64) NOT NULL PRIMARY KEY,
    value bigint      NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 {by_bytes};
INSERT IGNORE INTO {meta} (name, value) VALUES ('groups_epoch', 0), ('membership', 0), ('items_version', 1);

-- name: version
-- The version of the tables beside the items; no lock. Its name differs from that of the native layout, so
-- that the layouts can be told apart.
SELECT value FROM {meta} WHERE name = 'items_version'

-- name: items_columns
-- The columns of the table of items; no lock.
SELECT lower(column_name) FROM information_schema.columns WHERE table_schema = database() AND table_name = {event_name}

-- name: items_index_name
-- The index that contains the items in the order of claims, if there is one; no lock.
SELECT index_name FROM information_schema.statistics WHERE table_schema = database() AND table_name = {event_name}
GROUP BY index_name
HAVING lower(group_concat(column_name ORDER BY seq_in_index)) LIKE 'status,message\\_group,created\\_at%' ORDER BY index_name LIMIT 1

-- name: insert
-- Inserts items; locks only the new rows, in the caller's transaction.
INSERT INTO {event} (id, type, message_group, payload, status, retry_count, created_at, processed_at) VALUES {rows}

-- name: items_large
-- Pending items by id, with contents up to the size limit of a single row; no lock.
SELECT {light_columns}, utc_timestamp() AS `now`, {left_out} FROM {event} FORCE INDEX (PRIMARY) WHERE id IN ({ids}) AND status = 'PENDING'

-- name: items_claim
-- Claims items that this transaction has locked. The time of the claim is its token, so it increases with
-- each claim. created_at is assigned because a TIMESTAMP column may be declared to change with every update.
-- A processed_at that is not nullable contains a date of zeros, to which no server can add.
UPDATE {event} SET status = 'PROCESSING', created_at = created_at,
    processed_at = greatest({now}, CASE WHEN processed_at > '1970-01-02' THEN processed_at + INTERVAL 1 SECOND ELSE {now} END)
WHERE id IN ({ids})

-- name: items_leads
-- Whether a node is registered and holds the leader's slot; share locks on both rows, in the order in which
-- they are changed.
SELECT 1 FROM {node} n STRAIGHT_JOIN {slot} s ON s.slot = 0 AND s.holder = n.node_id WHERE n.node_id = '{node_id}' LOCK IN SHARE MODE

-- name: items_stuck
-- Whether an item was claimed too long ago. Without the time of the claim (NULL or a date of zeros), the time
-- of its creation counts.
CASE WHEN processed_at > '1970-01-02' THEN processed_at ELSE created_at END < {now} - INTERVAL {age_us} MICROSECOND

-- name: items_take_find
-- Pending items by group, time and id, and whether their group is held; no lock.
SELECT id, message_group,
    EXISTS (SELECT 1 FROM {group} held WHERE held.group_key = CONVERT(message_group USING utf8mb4) {by_bytes})
FROM {event} {by_status} WHERE status = 'PENDING' AND {within}
ORDER BY message_group, created_at, id LIMIT {limit}

-- name: items_take_lock
-- Items to take that are still pending; locks the rows, skips rows locked by others
-- where the server supports it.
SELECT {light_columns}, {now} AS `now`, {left_out} FROM {event} FORCE INDEX (PRIMARY) WHERE id IN ({ids}) AND status = 'PENDING' FOR UPDATE {skip_locked}

-- name: items_recover_find
-- Items that were claimed too long ago, or all claimed items, except those that the
-- leader has in flight; no lock.
SELECT id FROM {event} WHERE status = 'PROCESSING' AND {old} AND {others} LIMIT {limit}

-- name: items_recover_lock
-- Items to release that are still claimed; locks the rows by key, in order, skips rows locked by others where
-- the server supports it.
SELECT id FROM {event} FORCE INDEX (PRIMARY) WHERE id IN ({ids}) AND status = 'PROCESSING' AND {old} ORDER BY id FOR UPDATE {skip_locked}

-- name: items_recover
-- Releases items that this transaction has locked. processed_at stays, so that the
-- next claim gets a later one.
UPDATE {event} SET status = 'PENDING', created_at = created_at, processed_at = processed_at WHERE id IN ({ids})

-- name: items_settle_find
-- Items to settle; locks the rows in key order, skips rows locked by others where the server supports it.
SELECT id, status, processed_at FROM {event} WHERE id IN ({ids}) ORDER BY id FOR UPDATE {skip_locked}

-- name: items_settle_busy
-- Items that are claimed but could not be locked, with the time of the claim; no lock.
SELECT id, status, processed_at FROM {event} WHERE id IN ({ids}) AND status = 'PROCESSING'

-- name: items_settle
-- Sets the status of items that this transaction has locked, and the other columns as far as
-- the outcome changes them.
UPDATE {event} SET status = ?, created_at = created_at, processed_at = {ended}, error_message = {error}, retry_count = coalesce(?, retry_count)
WHERE id IN ({ids})

-- name: slots
-- Slots with their holders; no lock. Without sequence numbers there is no quarantine.
SELECT slot, holder, suspect, 0, 0 FROM {slot} ORDER BY slot

-- name: pending_upto
-- Always zero, because items have no sequence numbers; no lock.
SELECT 0

-- name: slots_evict
-- Frees all slots of an evicted node; under the membership lock.
UPDATE {slot} SET holder = NULL, suspect = 1 WHERE ? IS NOT NULL AND holder = ?

-- name: slots_trust
-- Does nothing, because this layout has no quarantine; no lock.
SELECT 1 FROM {slot} WHERE slot IN ({seqs}) AND holder = ?

-- name: slots_sweep
-- Does nothing, because this layout has no lanes; no lock.
DO 0

-- name: waiting
-- If slot 0 is held: whether items are pending, and when the first of them was written; no lock.
SELECT first.at IS NOT NULL, first.at, NULL FROM (SELECT (
    SELECT created_at FROM {event} WHERE status = 'PENDING' AND EXISTS (SELECT 1 FROM (SELECT 0 AS slot) held WHERE {slots}) AND ? IS NOT NULL
    ORDER BY message_group, created_at, id LIMIT 1) AS at) first

-- name: dead_find
-- Failed items of a selection, oldest first, with the columns of native rows; locks the rows.
SELECT 0, id, NULL, 0 FROM {selected} AND status = 'FAILED' ORDER BY created_at, id LIMIT ? FOR UPDATE

-- name: revive
-- Makes failed items pending again; locks the rows. processed_at stays, so that the
-- next claim gets a later one.
UPDATE {event} SET status = 'PENDING', retry_count = 0, error_message = NULL, created_at = created_at, processed_at = processed_at
WHERE id IN ({ids}) AND status = 'FAILED'

-- name: cancel_find
-- Items that are not claimed, with the columns of native rows; locks the rows in key order.
SELECT 0, id, 0 FROM {event} WHERE id IN ({ids}) AND status = 'PENDING' ORDER BY id FOR UPDATE

-- name: remove
-- Deletes items that this transaction has locked.
DELETE FROM {event} WHERE id IN ({ids})

-- name: items_purge
-- Deletes items of one status that ended before a time, except those that hold a group; locks the rows.
DELETE FROM {event} WHERE status = ? AND coalesce(processed_at, created_at) < {now} - INTERVAL ? MICROSECOND AND {free} LIMIT ?

-- name: items_purge_any
-- Deletes items that were written before a time, whatever their status, except those that hold a group; locks
-- the rows.
DELETE FROM {event} WHERE created_at < {now} - INTERVAL ? MICROSECOND AND {free} LIMIT ?

-- name: items_free
-- Whether no group is held behind an item; no lock.
NOT EXISTS (SELECT 1 FROM {group} g WHERE g.event_id = CONVERT({event}.id USING utf8mb4) {by_bytes})

-- name: list
-- A page of items by id in ascending order, with or without contents; no lock.
SELECT {listed_columns} FROM {selected} AND (? IS NULL OR id > ?) ORDER BY id LIMIT ?

-- name: list_newest
-- A page of items by id in descending order, with or without contents; no lock.
SELECT {listed_columns} FROM {selected} AND (? IS NULL OR id < ?) ORDER BY id DESC LIMIT ?

-- name: show
-- One item; no lock.
SELECT {columns} FROM {event} WHERE id = ?

-- name: stats_pending
-- Counts of pending and claimed items, and when the oldest pending item was written; no lock.
SELECT count(CASE WHEN retry_count <= 0 THEN 1 END), count(CASE WHEN retry_count > 0 THEN 1 END), 0, 0, 0,
    min(CASE WHEN status = 'PENDING' THEN created_at END), utc_timestamp(6)
FROM {event} WHERE status IN ('PENDING', 'PROCESSING')

-- name: stats_ended
-- Counts of completed and failed items, and of items completed and written in the last minute, in one pass; no lock.
SELECT count(CASE WHEN status = 'COMPLETED' THEN 1 END), count(CASE WHEN status = 'FAILED' THEN 1 END), 0, 0,
    count(CASE WHEN status = 'COMPLETED' AND processed_at > utc_timestamp(6) - INTERVAL 1 MINUTE THEN 1 END),
    count(CASE WHEN created_at > utc_timestamp(6) - INTERVAL 1 MINUTE THEN 1 END)
FROM {event}

-- name: stats_dead
-- Failed items by type, most frequent first; no lock.
SELECT type, count(*) FROM {event} WHERE status = 'FAILED' GROUP BY type ORDER BY count(*) DESC, type
