-- Gives items back that this transaction has locked. The time stays, so that the next claim has a later one.
UPDATE {event} SET status = 'PENDING', created_at = created_at, processed_at = processed_at WHERE id IN ({ids})
