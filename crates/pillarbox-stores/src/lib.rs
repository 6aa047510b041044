//! The one list of stores: which there are, and the right one for a URL.

mod connect;
mod error;
mod kind;
#[cfg(feature = "mongodb")]
mod mongodb;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;

pub use connect::{Missing, Options, beside, connect, schema_sql};
pub use error::ConnectError;
pub use kind::{StoreKind, stores};
