-- Items that are to be taken and still wait; locks the rows, skips those that others have locked where that can be.
SELECT {columns}, {now} FROM {event} FORCE INDEX (PRIMARY) WHERE id IN ({ids}) AND status = 'PENDING' FOR UPDATE {skip_locked}
