-- Ends the quarantine of slots, of those this node holds; under the membership lock.
UPDATE {slot} SET evictions = 0, quarantined_upto = 0 WHERE slot = ANY($1) AND holder = $2
