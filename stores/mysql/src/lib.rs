//! MySQL and MariaDB as an outbox.
