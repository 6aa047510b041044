//! The relay delivers the events of one or more outboxes, each to its sink and in order within each group.
//!
//! [`RelayConfig::load`](config::RelayConfig::load) loads and checks the configuration, [`Relay::start`]
//! starts the sources, and [`Relay::close`] drains and stops them.

mod admin;
mod brake;
pub mod config;
mod error;
mod failures;
mod left;
mod limited;
mod metrics;
mod predecessor;
mod purge;
mod relay;
mod sinks;
mod source;
mod watch;

pub use error::{RelayStartError, SourceError};
pub use left::Left;
pub use pillarbox_admin::{LastFailure, SourceCounts, SourceStatus};
pub use pillarbox_sinks::Secret;
pub use relay::{Relay, RelayParts, SourceReport, check_sinks};
pub use sinks::{Route, Sinks, UrlSinks};
