//! The delivery engine: row sources, bounded buffer, groups, workers, fenced settling and membership.
//!
//! `core` owns the state; its parts are in `state`. `steps` change the state without I/O, with time and
//! randomness as arguments. `sources` decide what to request from the store next and interpret the answers.
//! `tasks` call the store and the sink.

mod core;
mod empty;
mod routes;
mod running;
mod shared;
mod sources;
mod state;
mod steps;
mod tally;
mod tasks;
#[cfg(test)]
mod tests;

pub(crate) use core::Core;
pub use empty::is_empty;
pub(crate) use routes::RouteBreakers;
pub use running::{Engine, EngineHealth, EngineParts};
pub(crate) use shared::{Reservation, Shared};
pub use state::settings::{EngineSettings, OnDead, Ungrouped};
pub(crate) use tasks::caught::{called, caught};
pub(crate) use tasks::claimer::{Claimer, Sizing, claim_at_once};
pub(crate) use tasks::heartbeat_runtime::HeartbeatRuntime;
pub(crate) use tasks::settler::settle_now;

/// A hash map with a fixed seed: its iteration order is the same in every
/// run, which makes tests reproducible.
pub(crate) type Map<K, V> =
    std::collections::HashMap<K, V, std::hash::BuildHasherDefault<std::hash::DefaultHasher>>;
