-- Claims items that this transaction has locked. The time of the claim is its token: it is later with each claim. A column may
-- be set to change with every update, so the other time is named too. A column that is never NULL has a date of zeros, which no
-- server adds to.
UPDATE {event} SET status = 'PROCESSING', created_at = created_at,
    processed_at = greatest({now}, CASE WHEN processed_at > '1970-01-02' THEN processed_at + INTERVAL 1 SECOND ELSE {now} END)
WHERE id IN ({ids})
