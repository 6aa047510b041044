-- The columns that the table of items should have and has not; no lock.
SELECT value FROM json_each('["id","type","message_group","payload","status","retry_count","created_at","processed_at","error_message"]')
WHERE value NOT IN (SELECT lower(name) FROM pragma_table_info({event_name}))
