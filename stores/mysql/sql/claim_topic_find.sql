-- The first messages of one topic that are due, by their time; no lock. One part of a union.
(SELECT available_at, seq FROM {event} FORCE INDEX (topic)
WHERE topic = {topic} AND available_at <= {now} AND (locked_until IS NULL OR locked_until <= {now}) AND created_at <= {youngest}
ORDER BY available_at, seq LIMIT {limit})
