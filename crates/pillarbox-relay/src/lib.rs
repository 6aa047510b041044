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
mod sinks;
mod source;
mod watch;

pub use error::{RelayStartError, SourceError};
pub use failures::LastFailure;
pub use left::Left;
pub use metrics::SourceCounts;
pub use pillarbox_sinks::Secret;
pub use relay::{Relay, RelayParts, SourceReport, check_sinks};
pub use sinks::{Route, Sinks, UrlSinks};
pub use source::SourceStatus;
