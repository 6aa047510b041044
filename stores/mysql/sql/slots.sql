-- Slots with their holders; no lock.
SELECT slot, holder, suspect FROM {slot} ORDER BY slot
