-- Dead events that match, oldest first; under the write lock.
SELECT seq, event_id, lane FROM {selected} AND status = 3 ORDER BY seq LIMIT ?7
