-- Gives slots and lanes to a node; under the membership lock.
INSERT INTO {slot} (slot, holder) SELECT s, $2 FROM unnest($1::smallint[]) s
ON CONFLICT (slot) DO UPDATE SET holder = excluded.holder, suspect = false
