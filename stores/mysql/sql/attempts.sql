-- The failed attempts of one event; no lock.
SELECT number, failed_at, failed_by, error FROM {attempt} WHERE event_id = ? ORDER BY id
