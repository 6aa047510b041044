-- All slots and who holds them; rows without numbers have no quarantine; no lock.
SELECT slot, holder, suspect, 0, 0 FROM {slot} ORDER BY slot
