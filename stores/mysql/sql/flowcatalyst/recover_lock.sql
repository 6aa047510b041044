-- Items that are to be given back and are still claimed; locks the rows by their keys, in order, skips those that others have locked
-- where that can be.
SELECT id FROM {event} FORCE INDEX (PRIMARY) WHERE id IN ({ids}) AND status = 'PROCESSING' AND {old} ORDER BY id FOR UPDATE {skip_locked}
