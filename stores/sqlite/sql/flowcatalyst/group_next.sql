-- The next group after one that has items waiting; under the write lock.
SELECT message_group FROM {event} WHERE status = 'PENDING' AND message_group > ?1 ORDER BY message_group LIMIT 1
