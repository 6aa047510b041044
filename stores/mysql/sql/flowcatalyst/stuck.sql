-- Whether an item was claimed too long ago, by when it was written where it has no time of its claim: none, or a date of zeros.
CASE WHEN processed_at > '1970-01-02' THEN processed_at ELSE created_at END < {now} - INTERVAL {age_us} MICROSECOND
