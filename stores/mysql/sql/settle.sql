-- Applies outcomes to rows that this transaction has locked: what they become was worked out from what they were.
UPDATE ({outcomes}) o STRAIGHT_JOIN {event} e ON e.seq = o.seq
SET e.status = o.status, e.attempts = o.attempts, e.lane = o.lane,
    e.done_at = CASE WHEN o.ended = 1 THEN {now} ELSE e.done_at END,
    e.available_at = CASE WHEN o.delay_us IS NULL THEN e.available_at ELSE {now} + INTERVAL o.delay_us MICROSECOND END,
    e.last_error = coalesce(o.error, e.last_error),
    e.locked_by = CASE WHEN o.kept = 1 THEN e.locked_by END, e.locked_at = CASE WHEN o.kept = 1 THEN e.locked_at END,
    e.locked_until = CASE WHEN o.lease_us IS NOT NULL THEN {now} + INTERVAL o.lease_us MICROSECOND WHEN o.kept = 1 THEN e.locked_until END,
    e.processed_by = CASE WHEN o.ended = 1 THEN coalesce({owner}, e.processed_by) ELSE e.processed_by END
