-- Rows that were written before a time, whatever their status; locks the rows, skips those that others have locked.
SELECT seq, event_id FROM {event} WHERE created_at < {now} - INTERVAL ? MICROSECOND LIMIT ? FOR UPDATE {skip_locked}
