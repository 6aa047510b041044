-- Topics of messages that could be claimed, but these, from one to the next by the index; no lock.
WITH RECURSIVE topic (name, nth) AS (
    SELECT min(event_type), 1 FROM {event} INDEXED BY {event_topic} WHERE status IN (0, 2) AND lane = -2
    UNION ALL
    SELECT (SELECT min(e.event_type) FROM {event} e INDEXED BY {event_topic}
        WHERE e.status IN (0, 2) AND e.lane = -2 AND e.event_type > topic.name), nth + 1
    FROM topic WHERE name IS NOT NULL AND nth < 10000)
SELECT name FROM topic
WHERE typeof(name) = 'text' AND name NOT IN (SELECT value FROM json_each(?2)) AND EXISTS (
    SELECT 1 FROM {event} e INDEXED BY {event_topic}
    WHERE e.status IN (0, 2) AND e.lane = -2 AND e.event_type = topic.name AND e.available_at <= ?1
        AND (e.locked_until IS NULL OR e.locked_until <= ?1))
LIMIT ?3
