-- Failed items that match, oldest first; locks their rows.
SELECT id FROM {selected} AND status = 'FAILED' ORDER BY created_at, id LIMIT ? FOR UPDATE
