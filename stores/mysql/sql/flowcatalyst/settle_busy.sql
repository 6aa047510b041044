-- Items that are claimed, though they could not be locked, and since when; no lock.
SELECT id, status, processed_at FROM {event} WHERE id IN ({ids}) AND status = 'PROCESSING'
