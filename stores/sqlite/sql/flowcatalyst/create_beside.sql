-- The tables beside a table of items: leadership, groups, the record of operators. Times are microseconds since 1970 UTC.
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
