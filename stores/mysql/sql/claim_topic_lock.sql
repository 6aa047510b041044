-- Those of these messages that can still be claimed; locks them, skips those that others have locked where that can be.
SELECT {light_columns}, {now}, {claim_tail} FROM {event} FORCE INDEX (PRIMARY)
WHERE seq IN ({seqs}) AND status IN (0, 2) AND lane = -2 AND available_at <= {now} AND (locked_until IS NULL OR locked_until <= {now})
ORDER BY seq FOR UPDATE {skip_locked}
