-- Items that wait, in the order of group, time and id; no lock.
SELECT {light_columns}, utc_timestamp(), {left_out} FROM {event} {by_status} WHERE status = 'PENDING' AND created_at <= {youngest}
ORDER BY message_group, created_at, id LIMIT ?
