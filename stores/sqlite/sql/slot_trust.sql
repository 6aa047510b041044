-- Ends the quarantine of a slot, if this node holds it; under the write lock.
UPDATE {slot} SET evictions = 0, quarantined_upto = 0 WHERE slot = ?1 AND holder = ?2
