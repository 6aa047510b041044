-- Gives a slot or lane to a node; under the write lock.
INSERT INTO {slot} (slot, holder, suspect) VALUES (?1, ?2, 0)
ON CONFLICT (slot) DO UPDATE SET holder = excluded.holder, suspect = 0
