//! MongoDB as an outbox.
