-- The work queue: joins, and the mark of messages that are or were steps of one.
ALTER TABLE {event} ADD COLUMN joined INTEGER;

CREATE TABLE {join} (
    join_id              TEXT    PRIMARY KEY NOT NULL,
    grouping_key         TEXT,
    expected_steps       INTEGER NOT NULL,
    attached_steps       INTEGER NOT NULL DEFAULT 0,
    completed_steps      INTEGER NOT NULL DEFAULT 0,
    failed_steps         INTEGER NOT NULL DEFAULT 0,
    status               INTEGER NOT NULL DEFAULT 0,
    metadata             TEXT,
    -- These stay NULL until someone waits; there is a wait exactly if there is a continuation_id.
    fail_if_any          INTEGER,
    on_complete_topic    TEXT,
    on_complete_payload  TEXT,
    on_fail_topic        TEXT,
    on_fail_payload      TEXT,
    continuation_id      TEXT,
    continuation_headers TEXT,
    fired_id             TEXT,
    created_at           INTEGER NOT NULL,
    updated_at           INTEGER NOT NULL
);
CREATE INDEX {join_grouping} ON {join} (grouping_key, created_at, join_id) WHERE grouping_key IS NOT NULL;
CREATE INDEX {join_created} ON {join} (created_at, join_id);
CREATE INDEX {join_ended} ON {join} (updated_at) WHERE status <> 0;

CREATE TABLE {join_member} (
    join_id    TEXT    NOT NULL,
    event_id   TEXT    NOT NULL,
    status     INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (join_id, event_id)
) WITHOUT ROWID;
CREATE INDEX {join_member_event} ON {join_member} (event_id);

UPDATE {meta} SET value = 2 WHERE name = 'schema_version';
