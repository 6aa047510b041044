-- Notes what happens at the end of a join, once; under the write lock.
UPDATE {join}
SET fail_if_any = ?2, on_complete_topic = ?3, on_complete_payload = ?4, on_fail_topic = ?5, on_fail_payload = ?6,
    continuation_id = ?7, continuation_headers = ?8, updated_at = ?9
WHERE join_id = ?1 AND continuation_id IS NULL
