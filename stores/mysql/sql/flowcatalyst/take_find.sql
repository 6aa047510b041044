-- Which items wait, in the order of group, time and id, and whether their group is held; no lock.
SELECT id, message_group,
    EXISTS (SELECT 1 FROM {group} held WHERE held.group_key = CONVERT(message_group USING utf8mb4) {by_bytes})
FROM {event} {by_status} WHERE status = 'PENDING' AND {within}
ORDER BY message_group, created_at, id LIMIT {limit}
