-- Joins: when the last of several queue messages has ended, another message is enqueued. A queue message that
-- is or was a step of a join is marked in the column joined.
ALTER TABLE {event} ADD COLUMN IF NOT EXISTS joined boolean;

CREATE TABLE IF NOT EXISTS {join} (
    join_id              varchar(255) COLLATE "C" NOT NULL PRIMARY KEY,
    grouping_key         varchar(255) COLLATE "C",
    expected_steps       integer     NOT NULL,
    attached_steps       integer     NOT NULL DEFAULT 0,
    completed_steps      integer     NOT NULL DEFAULT 0,
    failed_steps         integer     NOT NULL DEFAULT 0,
    status               smallint    NOT NULL DEFAULT 0 CHECK (status BETWEEN 0 AND 3),
    metadata             text,
    fail_if_any          boolean,
    on_complete_topic    text,
    on_complete_payload  text,
    on_fail_topic        text,
    on_fail_payload      text,
    -- Set once a wait is registered.
    continuation_id      varchar(255) COLLATE "C",
    continuation_headers text,
    fired_id             varchar(255) COLLATE "C",
    created_at           timestamptz NOT NULL,
    updated_at           timestamptz NOT NULL
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
CREATE INDEX IF NOT EXISTS {join_group} ON {join} (grouping_key, created_at, join_id) WHERE grouping_key IS NOT NULL;
-- No index has a column that counting a step changes, so that these updates write no index entries.
CREATE INDEX IF NOT EXISTS {join_created} ON {join} (created_at, join_id);

CREATE TABLE IF NOT EXISTS {join_member} (
    join_id    varchar(255) COLLATE "C" NOT NULL,
    event_id   varchar(255) COLLATE "C" NOT NULL,
    status     smallint    NOT NULL CHECK (status BETWEEN 0 AND 2),
    created_at timestamptz NOT NULL,
    PRIMARY KEY (join_id, event_id)
) WITH (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
CREATE INDEX IF NOT EXISTS {join_event} ON {join_member} (event_id);

-- Ends the joins among these whose last step has ended and that have a wait, and enqueues their
-- continuations. Returns the number of continuations. The caller holds the locks of the joins.
CREATE OR REPLACE FUNCTION {join_end}(ids text[], at timestamptz) RETURNS integer LANGUAGE plpgsql VOLATILE AS $body$
DECLARE
    fired integer;
BEGIN
    WITH ended AS (
        UPDATE {join} j
        SET status = CASE WHEN j.fail_if_any AND j.failed_steps > 0 THEN 2 ELSE 1 END, updated_at = at,
            fired_id = CASE WHEN CASE WHEN j.fail_if_any AND j.failed_steps > 0 THEN j.on_fail_topic ELSE j.on_complete_topic END
                IS NOT NULL THEN j.continuation_id END
        WHERE j.join_id = ANY (ids) AND j.status = 0 AND j.continuation_id IS NOT NULL
            AND j.completed_steps + j.failed_steps >= j.expected_steps
        RETURNING j.*)
    INSERT INTO {event} (event_id, event_type, payload, headers, lane, available_at, created_at, occurred_at)
    SELECT e.fired_id, CASE e.status WHEN 2 THEN e.on_fail_topic ELSE e.on_complete_topic END,
        CASE e.status WHEN 2 THEN e.on_fail_payload ELSE e.on_complete_payload END, e.continuation_headers, -2, at, at, at
    FROM ended e WHERE e.fired_id IS NOT NULL ORDER BY e.join_id
    ON CONFLICT (event_id) DO NOTHING;
    GET DIAGNOSTICS fired = ROW_COUNT;
    RETURN fired;
END
$body$;

-- Counts ended messages in the joins of which they are pending members. Returns how many joins enqueued a
-- continuation. The caller holds the locks of the messages. Locks the members, then the joins in the order of
-- their ids. Each statement in this function sees what was committed before it, which the parts of the
-- calling statement do not.
CREATE OR REPLACE FUNCTION {join_settle}(completed text[], failed text[], at timestamptz) RETURNS integer LANGUAGE plpgsql VOLATILE AS $body$
DECLARE
    ids text[];
    done integer[];
    lost integer[];
BEGIN
    WITH changed AS (
        UPDATE {join_member} m SET status = CASE WHEN m.event_id = ANY (completed) THEN 1 ELSE 2 END
        WHERE m.event_id = ANY (completed || failed) AND m.status = 0
        RETURNING m.join_id, m.status),
    counted AS (
        SELECT c.join_id, count(*) FILTER (WHERE c.status = 1) AS done, count(*) FILTER (WHERE c.status = 2) AS lost
        FROM changed c GROUP BY c.join_id)
    SELECT array_agg(n.join_id), array_agg(n.done), array_agg(n.lost) INTO ids, done, lost FROM counted n;
    IF ids IS NULL THEN
        RETURN 0;
    END IF;
    PERFORM 1 FROM {join} j WHERE j.join_id = ANY (ids) ORDER BY j.join_id FOR NO KEY UPDATE;
    UPDATE {join} j
    SET completed_steps = j.completed_steps + n.done, failed_steps = j.failed_steps + n.lost, updated_at = at
    FROM unnest(ids, done, lost) AS n (join_id, done, lost)
    WHERE j.join_id = ANY (ids) AND j.join_id = n.join_id;
    RETURN {join_end}(ids, at);
END
$body$;

-- Makes queue messages steps of a join. Answers: 0 changed, 1 unchanged, 2 no such join, 3 ended, 4 full, 5
-- no such message, with details. Locks the messages in order of sequence number, then the join, and marks the
-- messages. A concurrent settle therefore either has ended, and this function sees it, or sees the mark.
CREATE OR REPLACE FUNCTION {join_attach}(of_join text, messages text[], at timestamptz, OUT answer integer, OUT detail text, OUT fired integer)
LANGUAGE plpgsql VOLATILE AS $body$
DECLARE
    j {join}%ROWTYPE;
    locked text[];
    fresh text[];
    done integer;
    lost integer;
BEGIN
    fired := 0;
    SELECT array_agg(l.event_id) INTO locked FROM (
        SELECT e.event_id FROM {event} e WHERE e.event_id = ANY (messages) AND e.lane = -2 ORDER BY e.seq FOR NO KEY UPDATE) l;
    SELECT * INTO j FROM {join} f WHERE f.join_id = of_join FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        answer := 2;
        RETURN;
    ELSIF j.status <> 0 THEN
        answer := 3;
        detail := j.status;
        RETURN;
    END IF;
    SELECT array_agg(u.id ORDER BY u.place) INTO fresh FROM (
        SELECT w.id, min(w.place) AS place FROM unnest(messages) WITH ORDINALITY AS w (id, place) GROUP BY w.id) u
    WHERE NOT EXISTS (SELECT 1 FROM {join_member} m WHERE m.join_id = of_join AND m.event_id = u.id);
    SELECT u.id INTO detail FROM unnest(fresh) WITH ORDINALITY AS u (id, place)
    WHERE locked IS NULL OR u.id <> ALL (locked) ORDER BY u.place LIMIT 1;
    IF FOUND THEN
        answer := 5;
        RETURN;
    ELSIF fresh IS NULL THEN
        answer := 1;
        RETURN;
    ELSIF j.attached_steps + cardinality(fresh) > j.expected_steps THEN
        answer := 4;
        detail := j.expected_steps;
        RETURN;
    END IF;
    -- Updates marked messages too: a transaction with an older snapshot must not be able
    -- to settle them any more.
    UPDATE {event} e SET joined = true WHERE e.event_id = ANY (fresh);
    WITH added AS (
        INSERT INTO {join_member} (join_id, event_id, status, created_at)
        SELECT of_join, e.event_id, CASE e.status WHEN 1 THEN 1 WHEN 3 THEN 2 ELSE 0 END, at FROM {event} e
        WHERE e.event_id = ANY (fresh)
        RETURNING status)
    SELECT count(*) FILTER (WHERE a.status = 1), count(*) FILTER (WHERE a.status = 2) INTO done, lost FROM added a;
    UPDATE {join} f
    SET attached_steps = f.attached_steps + cardinality(fresh), completed_steps = f.completed_steps + done,
        failed_steps = f.failed_steps + lost, updated_at = at
    WHERE f.join_id = of_join;
    answer := 0;
    fired := {join_end}(ARRAY[of_join], at);
END
$body$;

-- Records that a step has ended. Answers: 0 changed, 1 unchanged, 2 no such join, 6 not a member. Locks the
-- member, then the join.
CREATE OR REPLACE FUNCTION {join_report}(of_join text, message text, state integer, at timestamptz, OUT answer integer, OUT detail text,
    OUT fired integer)
LANGUAGE plpgsql VOLATILE AS $body$
DECLARE
    found_state integer;
BEGIN
    fired := 0;
    PERFORM 1 FROM {join} j WHERE j.join_id = of_join;
    IF NOT FOUND THEN
        answer := 2;
        RETURN;
    END IF;
    SELECT m.status INTO found_state FROM {join_member} m WHERE m.join_id = of_join AND m.event_id = message FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        answer := 6;
        RETURN;
    ELSIF found_state <> 0 OR state = 0 THEN
        answer := 1;
        RETURN;
    END IF;
    UPDATE {join_member} m SET status = state WHERE m.join_id = of_join AND m.event_id = message;
    UPDATE {join} j
    SET completed_steps = j.completed_steps + (state = 1)::integer, failed_steps = j.failed_steps + (state = 2)::integer, updated_at = at
    WHERE j.join_id = of_join;
    answer := 0;
    fired := {join_end}(ARRAY[of_join], at);
END
$body$;

-- Registers a wait: what happens when a join ends. Answers: 0 changed, 2 no such join, 3 ended, 7 already
-- waiting. Locks the join.
CREATE OR REPLACE FUNCTION {join_wait}(of_join text, fails boolean, complete_topic text, complete_payload text, fail_topic text, fail_payload text,
    continuation text, headers text, at timestamptz, OUT answer integer, OUT detail text, OUT fired integer)
LANGUAGE plpgsql VOLATILE AS $body$
DECLARE
    j {join}%ROWTYPE;
BEGIN
    fired := 0;
    SELECT * INTO j FROM {join} f WHERE f.join_id = of_join FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        answer := 2;
        RETURN;
    ELSIF j.status <> 0 THEN
        answer := 3;
        detail := j.status;
        RETURN;
    ELSIF j.continuation_id IS NOT NULL THEN
        answer := 7;
        RETURN;
    END IF;
    UPDATE {join} f
    SET fail_if_any = fails, on_complete_topic = complete_topic, on_complete_payload = complete_payload, on_fail_topic = fail_topic,
        on_fail_payload = fail_payload, continuation_id = continuation, continuation_headers = headers, updated_at = at
    WHERE f.join_id = of_join;
    answer := 0;
    fired := {join_end}(ARRAY[of_join], at);
END
$body$;

UPDATE {meta} SET value = 2 WHERE name = 'schema_version' AND value < 2;
