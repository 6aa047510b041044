//! What the stores of Pillarbox share: everything except SQL, its dialects and drivers.
//!
//! This is not a public interface: it changes with the stores.

mod columns;
mod failure;
mod handle;
mod joins;
mod page;
mod replacements;
mod selecting;
mod settings;
mod statement;
mod time;
mod version;

#[cfg(feature = "server")]
mod pool;
#[cfg(feature = "server")]
mod retry;
#[cfg(feature = "server")]
mod sqlx_error;
#[cfg(feature = "server")]
mod transaction;

pub use columns::selected;
pub use failure::{Refused, ServerFailure, commit_error};
pub use joins::{JOIN_COLUMNS, join_state_columns, read_join, read_member};
pub use page::{End, Light, Page, put_in_place, read_item, read_row};
pub use replacements::{EVENT_INDEXES, Replacements, TABLES};
pub use selecting::Selecting;
pub use settings::Settings;
pub use statement::{statement, undeclared};
pub use time::{from_micros, until};
pub use version::{KNOWN, SchemaVersion, refuse_lacking, refuse_missing, refuse_newer};

#[cfg(feature = "server")]
pub use pool::{Call, OpenSession, Pools, Purpose, Session, Work};
#[cfg(feature = "server")]
pub use settings::ServerSettings;
#[cfg(feature = "server")]
pub use sqlx_error::describe;

#[doc(hidden)]
pub use pillarbox::model::{Limits, TableName};
