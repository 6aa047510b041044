-- Claims items that this transaction has locked. The time of the claim is its token: it is later with each claim. A column may
-- be set to change with every update, so the other time is named too.
UPDATE {event} SET status = 'PROCESSING', created_at = created_at,
    processed_at = greatest({now}, coalesce(processed_at + INTERVAL 1 SECOND, {now}))
WHERE id IN ({ids})
