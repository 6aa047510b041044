-- Topics of messages that could be claimed, but these, from one to the next by the index; no lock.
WITH RECURSIVE t AS MATERIALIZED (SELECT coalesce($1, clock_timestamp()) AS now),
topic (name, nth) AS (
    (SELECT e.event_type::text, 1 FROM {event} e WHERE e.status IN (0, 2) AND e.lane = -2 ORDER BY e.event_type LIMIT 1)
    UNION ALL
    SELECT (SELECT e.event_type::text FROM {event} e WHERE e.status IN (0, 2) AND e.lane = -2 AND e.event_type > topic.name
        ORDER BY e.event_type LIMIT 1), nth + 1
    FROM topic WHERE topic.name IS NOT NULL AND nth < 10000)
SELECT name FROM topic, t
WHERE name IS NOT NULL AND name <> ALL ($2::text[]) AND EXISTS (
    SELECT 1 FROM {event} e WHERE e.status IN (0, 2) AND e.lane = -2 AND e.event_type = topic.name AND e.available_at <= t.now
        AND (e.locked_until IS NULL OR e.locked_until <= t.now))
LIMIT $3
