-- Failed items that match, oldest first; under the write lock.
SELECT rowid, id, NULL FROM {selected} AND status = 'FAILED' ORDER BY created_at, id LIMIT ?7
