-- The index that holds items in the order of claims, if there is one; no lock.
SELECT index_name FROM information_schema.statistics WHERE table_schema = database() AND table_name = {event_name}
GROUP BY index_name
HAVING lower(group_concat(column_name ORDER BY seq_in_index)) LIKE 'status,message\\_group,created\\_at%' ORDER BY index_name LIMIT 1
