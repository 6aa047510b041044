//! The registry of stores, and opening the store of a URL.

mod connect;
mod error;
mod registry;

pub use connect::{MissingFile, Options, beside, connect, schema_sql};
pub use error::{ConnectError, supported};
pub use registry::{StoreKind, kind_of, stores, tls_advice};
