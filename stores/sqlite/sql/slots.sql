-- All slots and who holds them; no lock.
SELECT slot, holder, suspect FROM {slot} ORDER BY slot
