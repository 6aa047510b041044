-- The outbox and the tables beside it. A plain writer needs only event_id, event_type and payload.
-- Keys compare by bytes, blanks at their end too: the collation for that has a name of its own in MySQL and in MariaDB.
-- The key of pending rows stands before that of ids, and ids are not NULL by a check: servers then fill it first, so that a
-- row which waits for another with its id is seen by readers that look for numbers still open.
CREATE TABLE IF NOT EXISTS {event} (
    seq            bigint       NOT NULL AUTO_INCREMENT,
    available_at   datetime(6)  NOT NULL DEFAULT (utc_timestamp(6)),
    created_at     datetime(6)  NOT NULL DEFAULT (utc_timestamp(6)),
    done_at        datetime(6),
    locked_at      datetime(6),
    locked_until   datetime(6),
    lock_token     bigint,
    occurred_at    datetime(6),
    due_at         datetime(6),
    expires_at     datetime(6),
    attempts       int          NOT NULL DEFAULT 0,
    status         tinyint      NOT NULL DEFAULT 0 CHECK (status BETWEEN 0 AND 3),
    lane           smallint     CHECK (lane BETWEEN -2 AND -1 OR lane BETWEEN 64 AND 32767),
    event_id       varchar(255) CHECK (event_id IS NOT NULL),
    event_type     varchar(255) NOT NULL,
    aggregate_type varchar(255),
    aggregate_id   varchar(255),
    tenant_id      varchar(255),
    message_group  varchar(255),
    message_id     varchar(255),
    correlation_id varchar(255),
    locked_by      varchar(255),
    processed_by   varchar(255),
    last_error     text,
    headers        longtext,
    payload        longtext,
    payload_bytes  longblob,
    slot           smallint     GENERATED ALWAYS AS
        (coalesce(lane, CAST(crc32(coalesce({group_key}, event_id)) & 63 AS signed))) STORED,
    pending        tinyint      GENERATED ALWAYS AS (CASE WHEN status IN (0, 2) THEN 1 ELSE 0 END) STORED,
    agenda         smallint     GENERATED ALWAYS AS
        (CASE WHEN status IN (1, 3) THEN status WHEN lane < 0 THEN lane END) STORED,
    agenda_at      datetime(6)  GENERATED ALWAYS AS
        (CASE WHEN status IN (1, 3) THEN coalesce(done_at, created_at) WHEN lane < 0 THEN available_at END) STORED,
    PRIMARY KEY (seq),
    UNIQUE KEY pending (pending, seq, slot),
    UNIQUE KEY event_id (event_id),
    UNIQUE KEY message_id (message_id),
    KEY agenda (agenda, agenda_at, seq)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 {by_bytes} /*T![auto_id_cache] AUTO_ID_CACHE = 1 */;

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
INSERT IGNORE INTO {slot} (slot)
WITH RECURSIVE s (slot) AS (SELECT 0 UNION ALL SELECT slot + 1 FROM s WHERE slot < 63) SELECT slot FROM s;

CREATE TABLE IF NOT EXISTS {group} (
    group_key varchar(511) NOT NULL PRIMARY KEY,
    state     varchar(16)  NOT NULL CHECK (state IN ('blocked', 'paused')),
    event_id  varchar(255),
    reason    text,
    held_by   text         NOT NULL,
    since     datetime(6)  NOT NULL,
    KEY event_id (event_id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 {by_bytes};

CREATE TABLE IF NOT EXISTS {attempt} (
    id        bigint       NOT NULL AUTO_INCREMENT PRIMARY KEY,
    event_id  varchar(255) NOT NULL,
    number    int          NOT NULL,
    failed_at datetime(6)  NOT NULL,
    failed_by text         NOT NULL,
    error     text         NOT NULL,
    KEY event_id (event_id, id)
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
INSERT IGNORE INTO {meta} (name, value) VALUES ('groups_epoch', 0), ('membership', 0), ('numbers', 0), ('probe', 0), ('schema_version', 1);
