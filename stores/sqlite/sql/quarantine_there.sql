-- Whether slots tell what is quarantined of them; no lock.
SELECT quarantined_upto FROM {slot} LIMIT 0
