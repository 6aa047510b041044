-- Topics of messages that could be claimed, but these, from one to the next by the index; no lock.
WITH RECURSIVE t (name, nth) AS (
    SELECT min(topic), 1 FROM {event} FORCE INDEX (topic) WHERE topic IS NOT NULL
    UNION ALL
    SELECT (SELECT min(e.topic) FROM {event} e FORCE INDEX (topic) WHERE e.topic > t.name), nth + 1
    FROM t WHERE t.name IS NOT NULL AND nth < 900)
SELECT name FROM t
WHERE name IS NOT NULL AND name NOT IN ({topics}) AND EXISTS (
    SELECT 1 FROM {event} e FORCE INDEX (topic)
    WHERE e.topic = t.name AND e.available_at <= {now} AND (e.locked_until IS NULL OR e.locked_until <= {now}))
LIMIT {limit}
