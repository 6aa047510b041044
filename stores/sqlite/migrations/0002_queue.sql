-- The work queue: joins. Messages that are or were steps of one bear a mark; SQLite has no words for a column that may be there
-- already, so that tables of version 1 get it from `pillarbox migrate` alone, and stay of version 1 where this text is run by hand.

CREATE TABLE IF NOT EXISTS {join} (
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
CREATE INDEX IF NOT EXISTS {join_grouping} ON {join} (grouping_key, created_at, join_id) WHERE grouping_key IS NOT NULL;
CREATE INDEX IF NOT EXISTS {join_created} ON {join} (created_at, join_id);
CREATE INDEX IF NOT EXISTS {join_ended} ON {join} (updated_at) WHERE status <> 0;

CREATE TABLE IF NOT EXISTS {join_member} (
    join_id    TEXT    NOT NULL,
    event_id   TEXT    NOT NULL,
    status     INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (join_id, event_id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS {join_member_event} ON {join_member} (event_id);

UPDATE {meta} SET value = 2 WHERE name = 'schema_version' AND value = 1
    AND EXISTS (SELECT 1 FROM pragma_table_info({event_name}) WHERE name = 'joined');
