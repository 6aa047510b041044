-- Where one message stands in one join; under the write lock.
SELECT status FROM {join_member} WHERE join_id = ?1 AND event_id = ?2
