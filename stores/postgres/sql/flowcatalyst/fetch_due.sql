-- Items that wait, in the order of group, time and id, those without a group first; no lock.
WITH t AS MATERIALIZED (SELECT coalesce($2, clock_timestamp()) AS now),
loose AS MATERIALIZED (
    SELECT {light_columns}, {left_out} AS left_out FROM {event}, t
    WHERE status = 'PENDING' AND message_group IS NULL
        AND ($3::bigint IS NULL OR created_at <= t.now AT TIME ZONE 'UTC' - $3 * interval '1 microsecond')
    ORDER BY created_at, id LIMIT $4),
grouped AS MATERIALIZED (
    SELECT {light_columns}, {left_out} AS left_out FROM {event}, t
    WHERE status = 'PENDING' AND message_group IS NOT NULL
        AND ($3::bigint IS NULL OR created_at <= t.now AT TIME ZONE 'UTC' - $3 * interval '1 microsecond')
    ORDER BY message_group, created_at, id LIMIT $4 - (SELECT count(*) FROM loose))
SELECT r.*, t.now FROM t LEFT JOIN (SELECT * FROM loose UNION ALL SELECT * FROM grouped) r ON true
ORDER BY message_group NULLS FIRST, created_at, id
