-- Whether a pending row of another event has this number; under the write lock.
SELECT EXISTS (SELECT 1 FROM {event} WHERE seq = ?1 AND status IN (0, 2) AND event_id <> ?2)
