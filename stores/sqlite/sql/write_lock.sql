-- Takes the write lock and changes nothing, so that what is read next is the last that was committed.
UPDATE {event} SET status = status WHERE 0
