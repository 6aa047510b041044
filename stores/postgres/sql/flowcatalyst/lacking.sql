-- The columns that the table of items should have and has not; no lock.
SELECT c FROM unnest('{id,type,message_group,payload,status,retry_count,created_at,processed_at,error_message}'::text[]) c
WHERE c NOT IN (SELECT attname FROM pg_attribute WHERE attrelid = to_regclass({event_name}) AND attnum > 0 AND NOT attisdropped)
