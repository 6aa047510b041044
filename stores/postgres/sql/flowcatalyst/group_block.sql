-- Puts groups behind their dead heads, one that is paused remembers the event, and tells nodes; locks on groups and epoch.
WITH blocked AS (
    INSERT INTO {group} AS g (group_key, state, event_id, reason, held_by, since)
    SELECT DISTINCT ON (r.blocks) r.blocks, 'blocked', r.id, r.error, 'engine', coalesce($1, clock_timestamp())
    FROM unnest($2::text[], $3::text[], $4::text[]) WITH ORDINALITY AS r (blocks, id, error, place) ORDER BY r.blocks, r.place
    ON CONFLICT (group_key) DO UPDATE SET event_id = excluded.event_id WHERE g.event_id IS NULL
    RETURNING 1)
UPDATE {meta} SET value = value + (SELECT count(*) FROM blocked)
WHERE name = 'groups_epoch' AND EXISTS (SELECT 1 FROM blocked)
