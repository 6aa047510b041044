-- Deletes rows that were written before a time, whatever their status; locks on the rows.
DELETE FROM {event} WHERE seq IN ({seqs}) AND created_at < {now} - INTERVAL ? MICROSECOND
