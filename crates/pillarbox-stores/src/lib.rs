//! The registry of stores, and opening the store of a URL.

mod beside;
mod connect;
mod error;
mod registry;

pub use beside::{PendingItems, beside, pending_items_beside};
pub use connect::{MissingFile, Options, connect, schema_sql};
pub use error::{ConnectError, supported};
pub use registry::{StoreKind, kind_of, stores, tls_advice};
