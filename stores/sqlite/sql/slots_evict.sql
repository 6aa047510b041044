-- Frees all slots of a node that has expired, and quarantines what was pending in them; under the write lock.
UPDATE {slot} SET holder = NULL, suspect = 1, evictions = evictions + 1,
    quarantined_upto = (SELECT coalesce(max(seq), 0) FROM {event} WHERE status IN (0, 2))
WHERE holder = ?1
