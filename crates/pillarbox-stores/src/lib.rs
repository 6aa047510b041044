//! The registry of stores: which there are, and the right one for a URL.

mod connect;
mod error;
mod registry;

pub use connect::{MissingFile, Options, beside, connect, schema_sql};
pub use error::{ConnectError, supported};
pub use registry::{StoreKind, kind_of, stores};
