-- The version of the tables beside the items, under a name of its own: so the layouts are told apart; no lock.
SELECT value FROM {meta} WHERE name = 'items_version'
