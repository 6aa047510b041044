-- The outbox and the tables beside it. Every statement can be run again on a database that has them. Times are microseconds since 1970 UTC; a plain writer needs only event_id, event_type and payload.
CREATE TABLE IF NOT EXISTS {event} (
    seq            INTEGER PRIMARY KEY AUTOINCREMENT,
    event_id       TEXT    NOT NULL UNIQUE,
    event_type     TEXT    NOT NULL,
    aggregate_type TEXT,
    aggregate_id   TEXT,
    tenant_id      TEXT,
    status         INTEGER NOT NULL DEFAULT 0 CHECK (status BETWEEN 0 AND 3),
    attempts       INTEGER NOT NULL DEFAULT 0,
    available_at   INTEGER NOT NULL DEFAULT (CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000),
    created_at     INTEGER NOT NULL DEFAULT (CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000),
    done_at        INTEGER,
    locked_by      TEXT,
    locked_at      INTEGER,
    locked_until   INTEGER,
    lock_token     INTEGER NOT NULL DEFAULT 0,
    processed_by   TEXT,
    lane           INTEGER CHECK (lane BETWEEN -2 AND -1 OR lane BETWEEN 64 AND 32767),
    message_group  TEXT,
    message_id     TEXT,
    correlation_id TEXT,
    occurred_at    INTEGER,
    due_at         INTEGER,
    expires_at     INTEGER,
    group_key      TEXT GENERATED ALWAYS AS
        (coalesce(message_group, coalesce(aggregate_type, '__GLOBAL__') || '/' || aggregate_id)) VIRTUAL,
    -- Six characters from the end and three from the start: whatever ids look like, some of these differ.
    slot           INTEGER NOT NULL GENERATED ALWAYS AS (coalesce(lane, (((
          ifnull(unicode(substr(ifnull(group_key, event_id), -1)), 0)
        + ifnull(unicode(substr(ifnull(group_key, event_id), -2, 1)), 0) * 31
        + ifnull(unicode(substr(ifnull(group_key, event_id), -3, 1)), 0) * 961
        + ifnull(unicode(substr(ifnull(group_key, event_id), -4, 1)), 0) * 29791
        + ifnull(unicode(substr(ifnull(group_key, event_id), -5, 1)), 0) * 6227
        + ifnull(unicode(substr(ifnull(group_key, event_id), -6, 1)), 0) * 61995
        + ifnull(unicode(ifnull(group_key, event_id)), 0) * 21736
        + ifnull(unicode(substr(ifnull(group_key, event_id), 2, 1)), 0) * 18606
        + ifnull(unicode(substr(ifnull(group_key, event_id), 3, 1)), 0) * 52618
        ) * 40503) >> 6) & 63)) STORED,
    last_error     TEXT,
    headers        TEXT,
    payload        TEXT,
    payload_bytes  BLOB,
    joined         INTEGER
);

CREATE INDEX IF NOT EXISTS {event_pending} ON {event} (seq, slot) WHERE status IN (0, 2);
CREATE UNIQUE INDEX IF NOT EXISTS {event_message} ON {event} (message_id) WHERE message_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS {event_ended} ON {event} (status, done_at) WHERE status IN (1, 3);
CREATE INDEX IF NOT EXISTS {event_delayed} ON {event} (available_at) WHERE status IN (0, 2) AND lane = -1;
CREATE INDEX IF NOT EXISTS {event_queue} ON {event} (available_at, seq) WHERE status IN (0, 2) AND lane = -2;

CREATE TABLE IF NOT EXISTS {node} (
    node_id    TEXT    PRIMARY KEY NOT NULL,
    label      TEXT    NOT NULL,
    lane       INTEGER NOT NULL,
    joined_at  INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    state      TEXT
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS {slot} (
    slot             INTEGER PRIMARY KEY,
    holder           TEXT,
    suspect          INTEGER NOT NULL DEFAULT 0,
    evictions        INTEGER NOT NULL DEFAULT 0,
    quarantined_upto INTEGER NOT NULL DEFAULT 0
);
INSERT OR IGNORE INTO {slot} (slot)
WITH RECURSIVE n (slot) AS (SELECT 0 UNION ALL SELECT slot + 1 FROM n WHERE slot < 63) SELECT slot FROM n;

CREATE TABLE IF NOT EXISTS {group} (
    group_key TEXT    PRIMARY KEY NOT NULL,
    state     TEXT    NOT NULL CHECK (state IN ('blocked', 'paused')),
    event_id  TEXT,
    reason    TEXT,
    held_by   TEXT    NOT NULL,
    since     INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS {attempt} (
    id        INTEGER PRIMARY KEY,
    event_id  TEXT    NOT NULL,
    number    INTEGER NOT NULL,
    failed_at INTEGER NOT NULL,
    failed_by TEXT    NOT NULL,
    error     TEXT    NOT NULL
);
CREATE INDEX IF NOT EXISTS {attempt_event} ON {attempt} (event_id);

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
INSERT OR IGNORE INTO {meta} (name, value) VALUES ('schema_version', 1), ('groups_epoch', 0);
