-- There are no lanes to look for in this layout; no lock.
DO 0
