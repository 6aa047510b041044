-- Joins: messages of the queue whose last end enqueues another. A row of the queue that is or was attached bears a mark.
-- MySQL has no words for a column that may be there already; a statement that is made here does without them on every server.
SET @pillarbox_mark = (SELECT CASE WHEN EXISTS (
        SELECT 1 FROM information_schema.columns
        WHERE table_schema = database() AND table_name = {event_name} AND column_name = 'joined')
    THEN 'DO 0' ELSE 'ALTER TABLE {event} ADD COLUMN joined tinyint' END);
PREPARE pillarbox_mark FROM @pillarbox_mark;
EXECUTE pillarbox_mark;
DEALLOCATE PREPARE pillarbox_mark;

CREATE TABLE IF NOT EXISTS {join} (
    join_id              varchar(255) NOT NULL PRIMARY KEY,
    grouping_key         varchar(255),
    expected_steps       int          NOT NULL,
    attached_steps       int          NOT NULL DEFAULT 0,
    completed_steps      int          NOT NULL DEFAULT 0,
    failed_steps         int          NOT NULL DEFAULT 0,
    status               tinyint      NOT NULL DEFAULT 0 CHECK (status BETWEEN 0 AND 3),
    metadata             longtext,
    -- These stay NULL until someone waits; there is a wait exactly if there is a continuation_id.
    fail_if_any          tinyint,
    on_complete_topic    varchar(255),
    on_complete_payload  longtext,
    on_fail_topic        varchar(255),
    on_fail_payload      longtext,
    continuation_id      varchar(255),
    continuation_headers longtext,
    fired_id             varchar(255),
    created_at           datetime(6)  NOT NULL,
    updated_at           datetime(6)  NOT NULL,
    -- None has a column that counting a step changes.
    KEY grouping_key (grouping_key, created_at, join_id),
    KEY created_at (created_at, join_id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 {by_bytes};

CREATE TABLE IF NOT EXISTS {join_member} (
    join_id    varchar(255) NOT NULL,
    event_id   varchar(255) NOT NULL,
    status     tinyint      NOT NULL DEFAULT 0 CHECK (status BETWEEN 0 AND 2),
    created_at datetime(6)  NOT NULL,
    PRIMARY KEY (join_id, event_id),
    KEY event_id (event_id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 {by_bytes};

UPDATE {meta} SET value = 2 WHERE name = 'schema_version' AND value = 1;
