//! The SQLite store of Pillarbox: embedded, in one file that several processes can share.
//!
//! One thread writes, and commits the transactions of many callers together. Readers have their own
//! connections. Events are written in a transaction of the store's writer, or in one of your own connection:
//!
//! ```
//! use pillarbox::Event;
//! use pillarbox::model::{NewRow, Placement};
//! use pillarbox::port::{Admin, BlockingWriteOn};
//! use pillarbox_sqlite::SqliteStore;
//! use pillarbox_sqlite::rusqlite::Connection;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let file = folder.path().join("shop.db");
//! let store = SqliteStore::open(&file)?;
//! store.migrate().await?;
//!
//! let mut connection = Connection::open(&file)?;
//! let tx = connection.transaction()?;
//! let event = Event::text("OrderPlaced", r#"{"order":1}"#).build()?;
//! store.insert_blocking(&tx, &[NewRow { event, placement: Placement::Slot }])?;
//! tx.commit()?;
//! # Ok(())
//! # }
//! ```
//!
//! A connection without a transaction is rejected by its type. This compiles with
//! `on: &rusqlite::Transaction<'_>`,
//!
//! ```
//! # use pillarbox::model::NewRow;
//! # use pillarbox::port::BlockingWriteOn;
//! # use pillarbox_sqlite::{SqliteStore, rusqlite};
//! # fn run(store: &SqliteStore, on: &rusqlite::Transaction<'_>, rows: &[NewRow]) {
//! let written = store.insert_blocking(on, rows);
//! # }
//! ```
//!
//! and does not with `on: &rusqlite::Connection`:
//!
//! ```compile_fail
//! # use pillarbox::model::NewRow;
//! # use pillarbox::port::BlockingWriteOn;
//! # use pillarbox_sqlite::{SqliteStore, rusqlite};
//! # fn run(store: &SqliteStore, on: &rusqlite::Connection, rows: &[NewRow]) {
//! let written = store.insert_blocking(on, rows);
//! # }
//! ```
//!
//! The store of a table of items is a [`SqliteItemStore`]. An outbox can write to it,
//!
//! ```
//! # use pillarbox::Outbox;
//! # fn run(store: pillarbox_sqlite::SqliteItemStore) {
//! let outbox = Outbox::writer_only(store);
//! # }
//! ```
//!
//! but cannot deliver from it, because that is the relay's task:
//!
//! ```compile_fail
//! # use pillarbox::Outbox;
//! # fn run(store: pillarbox_sqlite::SqliteItemStore) {
//! let outbox = Outbox::single_node(store);
//! # }
//! ```

mod admin;
mod claim;
mod config;
mod connection;
mod error;
mod fetch;
mod flowcatalyst;
mod groups;
mod insert;
mod inspect;
mod job;
mod joins;
mod kind;
mod membership;
mod migrate;
mod operate;
mod oversized;
mod promote;
mod reader;
mod rights;
mod row;
mod settle;
mod sql;
mod store;
mod time;
mod transaction;
mod wakeups;
mod writer;

pub use config::{Access, Missing, SqliteStoreBuilder, Synchronous};
pub use rusqlite;
pub use store::{SqliteItemStore, SqliteStore, SqliteTable};
pub use transaction::SqliteTransaction;
