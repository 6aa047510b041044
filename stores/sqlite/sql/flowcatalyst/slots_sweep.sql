-- There are no lanes to look for in this layout; no lock.
UPDATE {slot} SET slot = slot WHERE false
