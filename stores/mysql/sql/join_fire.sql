-- Enqueues what joins have ended in, unless it is there, in the order of their ids; locks of new rows.
INSERT INTO {event} (event_id, event_type, payload, headers, lane, available_at, created_at, occurred_at)
SELECT fired_id, CASE status WHEN 2 THEN on_fail_topic ELSE on_complete_topic END,
    CASE status WHEN 2 THEN on_fail_payload ELSE on_complete_payload END, continuation_headers, -2, {now}, {now}, {now}
FROM {join} FORCE INDEX (PRIMARY) WHERE join_id IN ({ids}) ORDER BY join_id
ON DUPLICATE KEY UPDATE seq = {event}.seq
