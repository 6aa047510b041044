-- Slots with their holders and what is quarantined; no lock.
SELECT slot, holder, suspect, evictions, quarantined_upto FROM {slot} ORDER BY slot
