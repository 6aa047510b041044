-- The table of items as its own documentation has it. Some servers make a column of times NOT NULL unless it says otherwise.
CREATE TABLE {event} (
    id VARCHAR(13) PRIMARY KEY,
    type VARCHAR(20) NOT NULL,
    message_group VARCHAR(255),
    payload TEXT NOT NULL,
    status VARCHAR(20) NOT NULL,
    retry_count INT NOT NULL DEFAULT 0,
    created_at TIMESTAMP NOT NULL,
    processed_at TIMESTAMP NULL DEFAULT NULL,
    error_message TEXT
);

CREATE INDEX {event_status}
    ON {event}(status, message_group, created_at);
