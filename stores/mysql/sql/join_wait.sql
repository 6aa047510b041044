-- Notes what happens at the end of a join that this transaction has locked.
UPDATE {join}
SET fail_if_any = ?, on_complete_topic = ?, on_complete_payload = ?, on_fail_topic = ?, on_fail_payload = ?, continuation_id = ?,
    continuation_headers = ?, updated_at = {now}
WHERE join_id = ? AND continuation_id IS NULL
