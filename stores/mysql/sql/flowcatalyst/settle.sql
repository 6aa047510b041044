-- Gives items that this transaction has locked a status; what is not told stays.
UPDATE {event} SET status = ?, created_at = created_at, processed_at = {ended}, error_message = {error}, retry_count = retry_count + ?
WHERE id IN ({ids})
