//! The SQLite store of Pillarbox: embedded, one file, several processes.
//!
//! One thread writes and commits many callers' transactions at once; readers have connections of their own.

mod admin;
mod claim;
mod config;
mod connection;
mod error;
mod fetch;
mod groups;
mod hints;
mod insert;
mod inspect;
mod job;
mod membership;
mod migrate;
mod operate;
mod promote;
mod reader;
mod row;
mod settle;
mod sql;
mod store;
mod time;
mod transaction;
mod writer;

pub use config::{Access, Missing, SqliteStoreBuilder, Synchronous};
pub use rusqlite;
pub use store::SqliteStore;
pub use transaction::SqliteTransaction;
