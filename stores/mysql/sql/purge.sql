-- Deletes rows of one status that ended before a time, unless one was replayed; locks on the rows.
DELETE FROM {event} WHERE seq IN ({seqs}) AND agenda = ? AND agenda_at < {now} - INTERVAL ? MICROSECOND
