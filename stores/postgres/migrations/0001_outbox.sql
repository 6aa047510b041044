-- The event table and the tables beside it. A plain writer needs only event_id, event_type and payload.
CREATE SEQUENCE IF NOT EXISTS {sequence} AS bigint CACHE 1;

CREATE TABLE IF NOT EXISTS {event} (
    seq            bigint      NOT NULL DEFAULT nextval({sequence_name}),
    available_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    done_at        timestamptz,
    locked_at      timestamptz,
    locked_until   timestamptz,
    lock_token     bigint,
    occurred_at    timestamptz,
    due_at         timestamptz,
    expires_at     timestamptz,
    attempts       integer     NOT NULL DEFAULT 0,
    status         smallint    NOT NULL DEFAULT 0 CHECK (status BETWEEN 0 AND 3),
    lane           smallint    CHECK (lane BETWEEN -2 AND -1 OR lane BETWEEN 64 AND 32767),
    slot           smallint    NOT NULL GENERATED ALWAYS AS
        (coalesce(lane, (hashtext(coalesce({group_key}, event_id)) & 63)::smallint)) STORED,
    event_id       varchar(255) COLLATE "C" NOT NULL PRIMARY KEY,
    event_type     varchar(255) COLLATE "C" NOT NULL,
    aggregate_type varchar(255) COLLATE "C",
    aggregate_id   varchar(255) COLLATE "C",
    tenant_id      varchar(255) COLLATE "C",
    message_group  varchar(255) COLLATE "C",
    message_id     varchar(255) COLLATE "C",
    correlation_id varchar(255) COLLATE "C",
    locked_by      varchar(255) COLLATE "C",
    processed_by   varchar(255) COLLATE "C",
    last_error     text,
    headers        text,
    payload        text,
    payload_bytes  bytea
) WITH (
    -- A claim writes a new version of a message. If the page has room for it, no index changes.
    fillfactor = 45,
    -- An outbox fills and empties all the time: vacuum has to follow its dead rows, not its size.
    autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_limit = 2000,
    autovacuum_vacuum_cost_delay = 1, autovacuum_analyze_scale_factor = 0.05, autovacuum_analyze_threshold = 5000,
    toast.autovacuum_vacuum_scale_factor = 0.01, toast.autovacuum_vacuum_threshold = 5000
);
ALTER SEQUENCE {sequence} OWNED BY {event}.seq;

CREATE INDEX IF NOT EXISTS {event_pending} ON {event} (seq, slot) WHERE status IN (0, 2);
CREATE UNIQUE INDEX IF NOT EXISTS {event_message} ON {event} (message_id) WHERE message_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS {event_ended} ON {event} (status, done_at) WHERE status IN (1, 3);
CREATE INDEX IF NOT EXISTS {event_delayed} ON {event} (available_at, seq) WHERE status IN (0, 2) AND lane = -1;
CREATE INDEX IF NOT EXISTS {event_queue} ON {event} (available_at, seq) WHERE status IN (0, 2) AND lane = -2;

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
INSERT INTO {slot} (slot) SELECT generate_series(0, 63) ON CONFLICT DO NOTHING;

CREATE TABLE IF NOT EXISTS {group} (
    group_key text        COLLATE "C" NOT NULL PRIMARY KEY,
    state     text        NOT NULL CHECK (state IN ('blocked', 'paused')),
    event_id  varchar(255) COLLATE "C",
    reason    text,
    held_by   text        NOT NULL,
    since     timestamptz NOT NULL
);

CREATE TABLE IF NOT EXISTS {attempt} (
    id        bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_id  varchar(255) COLLATE "C" NOT NULL,
    number    integer     NOT NULL,
    failed_at timestamptz NOT NULL,
    failed_by text        NOT NULL,
    error     text        NOT NULL
);
CREATE INDEX IF NOT EXISTS {attempt_event} ON {attempt} (event_id, id);

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
INSERT INTO {meta} (name, value) VALUES ('schema_version', 1), ('groups_epoch', 0) ON CONFLICT DO NOTHING;
