-- The tables beside a table of items: leadership, groups, the record of operators.
CREATE TABLE IF NOT EXISTS {node} (
    node_id    varchar(64) COLLATE "C" NOT NULL PRIMARY KEY,
    label      text        NOT NULL,
    lane       smallint    NOT NULL,
    joined_at  timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    state      text
) WITH (fillfactor = 50);

CREATE TABLE IF NOT EXISTS {slot} (
    slot    smallint NOT NULL PRIMARY KEY,
    holder  varchar(64) COLLATE "C",
    suspect boolean  NOT NULL DEFAULT false
) WITH (fillfactor = 50);
INSERT INTO {slot} (slot) VALUES (0) ON CONFLICT DO NOTHING;

CREATE TABLE IF NOT EXISTS {group} (
    group_key text        COLLATE "C" NOT NULL PRIMARY KEY,
    state     text        NOT NULL CHECK (state IN ('blocked', 'paused')),
    event_id  varchar(255) COLLATE "C",
    reason    text,
    held_by   text        NOT NULL,
    since     timestamptz NOT NULL
);

CREATE TABLE IF NOT EXISTS {audit} (
    id     bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at     timestamptz NOT NULL,
    actor  text        NOT NULL,
    action text        NOT NULL,
    target text        NOT NULL
);

CREATE TABLE IF NOT EXISTS {meta} (
    name  text   COLLATE "C" NOT NULL PRIMARY KEY,
    value bigint NOT NULL
) WITH (fillfactor = 50);
INSERT INTO {meta} (name, value) VALUES ('items_version', 1), ('groups_epoch', 0) ON CONFLICT DO NOTHING;
