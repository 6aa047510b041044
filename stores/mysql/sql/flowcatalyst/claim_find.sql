-- Items that wait, in the order of group, time and id; locks the rows it takes, skips those that others have locked where that can be.
SELECT {light_columns}, {now}, {left_out} FROM {event} {by_status} WHERE status = 'PENDING' AND created_at <= {youngest}
ORDER BY message_group, created_at, id LIMIT ? FOR UPDATE {skip_locked}
