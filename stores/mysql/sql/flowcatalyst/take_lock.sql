-- Items that are to be taken and still wait; locks the rows, skips those that others have locked where that can be.
SELECT {light_columns}, {now}, {left_out} FROM {event} FORCE INDEX (PRIMARY) WHERE id IN ({ids}) AND status = 'PENDING' FOR UPDATE {skip_locked}
