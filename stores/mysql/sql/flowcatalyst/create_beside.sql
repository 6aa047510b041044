-- The tables beside a table of items: leadership, groups, the record of operators. Times are UTC.
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
