-- Makes inserts cheaper. The server parses and plans CHECK constraints and generated columns again for every
-- statement; for one row that cost more than the row itself. A trigger computes the slot instead, and checks
-- what the writer gave.
-- Releases that know version 2 still work with these tables, so the version stays 2: the triggers give their
-- inserts and updates the same slots as before.
DO $body$
DECLARE
    checked text;
BEGIN
    FOR checked IN SELECT conname FROM pg_constraint
        WHERE conrelid = {event_name}::regclass AND contype = 'c' AND conname ~ '_(status|lane)_check$'
    LOOP
        EXECUTE format('ALTER TABLE {event} DROP CONSTRAINT %I', checked);
    END LOOP;
END
$body$;
ALTER TABLE {event} ALTER COLUMN slot DROP EXPRESSION IF EXISTS;

-- Places a new row. No writer needs to name the slot, nor the right to.
CREATE OR REPLACE FUNCTION {slot_insert}() RETURNS trigger LANGUAGE plpgsql AS $body$
BEGIN
    IF NEW.status NOT BETWEEN 0 AND 3 THEN
        RAISE check_violation USING MESSAGE = format('status %s of event %s is not between 0 and 3', NEW.status, NEW.event_id);
    ELSIF NEW.lane < -2 OR NEW.lane BETWEEN 0 AND 63 THEN
        RAISE check_violation USING MESSAGE = format('lane %s of event %s does not exist; leave it NULL', NEW.lane, NEW.event_id);
    END IF;
    NEW.slot := coalesce(NEW.lane, (hashtext(coalesce(NEW.message_group,
        coalesce(NEW.aggregate_type, '__GLOBAL__') || '/' || NEW.aggregate_id, NEW.event_id)) & 63)::smallint);
    RETURN NEW;
END
$body$;
DROP TRIGGER IF EXISTS pillarbox_insert ON {event};
CREATE TRIGGER pillarbox_insert BEFORE INSERT ON {event} FOR EACH ROW WHEN (NEW.slot IS NULL) EXECUTE FUNCTION {slot_insert}();

-- Moves a row whose lane or group was changed by a statement that does not know that the slot follows. A BEFORE
-- trigger would lock each row of every update once more.
-- The table is named by its own number: the search path of the session may lead elsewhere.
CREATE OR REPLACE FUNCTION {slot_update}() RETURNS trigger LANGUAGE plpgsql AS $body$
DECLARE
    moved smallint := coalesce(NEW.lane, (hashtext(coalesce(NEW.message_group,
        coalesce(NEW.aggregate_type, '__GLOBAL__') || '/' || NEW.aggregate_id, NEW.event_id)) & 63)::smallint);
BEGIN
    IF NEW.lane < -2 OR NEW.lane BETWEEN 0 AND 63 THEN
        RAISE check_violation USING MESSAGE = format('lane %s of event %s does not exist; leave it NULL', NEW.lane, NEW.event_id);
    ELSIF NEW.slot IS DISTINCT FROM moved THEN
        EXECUTE format('UPDATE %s SET slot = $1 WHERE event_id = $2', TG_RELID::regclass) USING moved, NEW.event_id;
    END IF;
    RETURN NULL;
END
$body$;
DROP TRIGGER IF EXISTS pillarbox_update ON {event};
CREATE TRIGGER pillarbox_update AFTER UPDATE OF lane, message_group, aggregate_type, aggregate_id, event_id ON {event} FOR EACH ROW
WHEN (NEW.slot = OLD.slot AND (NEW.lane, NEW.message_group, NEW.aggregate_type, NEW.aggregate_id, NEW.event_id)
    IS DISTINCT FROM (OLD.lane, OLD.message_group, OLD.aggregate_type, OLD.aggregate_id, OLD.event_id))
EXECUTE FUNCTION {slot_update}();

INSERT INTO {meta} (name, value) VALUES ('schema_step', 5)
ON CONFLICT (name) DO UPDATE SET value = greatest({meta}.value, excluded.value);
