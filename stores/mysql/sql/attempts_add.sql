-- Remembers failed attempts.
INSERT INTO {attempt} (event_id, number, failed_at, failed_by, error) VALUES {rows}
