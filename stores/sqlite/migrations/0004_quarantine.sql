-- What is quarantined of a slot: how many of its holders were evicted since it was last trusted, and the highest pending number when
-- the last of them was. Releases that know version 2 work on, so that it stays version 2.
-- Tables of an earlier version get the columns from `pillarbox migrate` alone.
UPDATE {meta} SET value = 4 WHERE name = 'schema_step' AND value < 4
    AND EXISTS (SELECT 1 FROM pragma_table_info({slot_name}) WHERE name = 'quarantined_upto');
