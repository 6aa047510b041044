-- Records a failed attempt of one row; under the write lock.
INSERT INTO {attempt} (event_id, number, failed_at, failed_by, error)
SELECT event_id, attempts, ?2, ?3, ?4 FROM {event} WHERE seq = ?1
