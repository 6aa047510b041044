-- The first group that has items waiting; under the write lock.
SELECT message_group FROM {event} WHERE status = 'PENDING' AND message_group IS NOT NULL ORDER BY message_group LIMIT 1
