-- Refuses a number that no reader would look for. A number that is left out is not known before the insert.
CREATE TRIGGER IF NOT EXISTS {event_number} AFTER INSERT ON {event} WHEN NEW.seq <= 0
BEGIN
    SELECT RAISE(ABORT, 'seq must be above 0; leave it out');
END;
UPDATE {meta} SET value = 5 WHERE name = 'schema_step' AND value = 4;
