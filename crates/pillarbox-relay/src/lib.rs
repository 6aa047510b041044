//! The relay: drains outboxes, each to its sink, in order within each group.
//!
//! [`RelayConfig::load`](config::RelayConfig::load) reads what is set, [`Relay::start`] runs it.

mod admin;
mod brake;
pub mod config;
mod empty;
mod error;
mod failures;
mod left;
mod limited;
mod metrics;
mod purge;
mod relay;
mod secret;
mod sinks;
mod source;
mod watch;

pub use error::{SourceError, StartError};
pub use failures::LastFailure;
pub use left::Left;
pub use metrics::Counts;
pub use relay::{Relay, RelayParts, SourceReport, check_sinks};
pub use secret::{Secret, shown_url};
pub use sinks::{Route, Sinks, UrlSinks};
pub use source::Standing;
