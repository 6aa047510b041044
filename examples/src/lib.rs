//! Runnable examples of Pillarbox; each one is also a test. The code in the documents is compiled here.

#[doc = include_str!("../../README.md")]
pub mod readme {}

#[doc = include_str!("../../docs/guides/events.md")]
pub mod events_guide {}

#[doc = include_str!("../../docs/guides/sqlite.md")]
pub mod sqlite_guide {}

#[doc = include_str!("../../docs/guides/mongodb.md")]
pub mod mongodb_guide {}

#[doc = include_str!("../../docs/guides/postgresql.md")]
pub mod postgresql_guide {}

#[doc = include_str!("../../docs/guides/mysql.md")]
pub mod mysql_guide {}

#[doc = include_str!("../../docs/guides/databases.md")]
pub mod databases_guide {}

#[doc = include_str!("../../docs/guides/queue.md")]
pub mod queue_guide {}
