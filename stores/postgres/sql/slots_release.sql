-- Frees drained slots of groups and drops drained lanes, of those this node holds; under the membership lock.
WITH dropped AS (DELETE FROM {slot} WHERE slot = ANY($1) AND slot >= 64 AND holder = $2)
UPDATE {slot} SET holder = NULL, suspect = false WHERE slot = ANY($1) AND slot < 64 AND holder = $2
