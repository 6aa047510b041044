//! The one engine: row sources, bounded buffer, groups, workers, fenced settling, membership.
//!
//! `core` owns the state, whose parts are in `state`. `steps` change it, with the time and randomness as arguments and without
//! I/O. `sources` decide what is asked of the store next, and what an answer means. `tasks` own the calls to store and sink.

mod core;
mod routes;
mod running;
mod shared;
mod sources;
mod state;
mod steps;
mod tasks;
#[cfg(test)]
mod tests;

pub(crate) use core::Core;
pub(crate) use routes::RouteBreakers;
pub use running::{Engine, EngineHealth, EngineParts};
pub(crate) use shared::{Reservation, Shared};
pub use state::settings::{EngineSettings, OnDead, Ungrouped};
pub(crate) use tasks::caught::{called, caught};
pub(crate) use tasks::claimer::{Claimer, claim_at_once};
pub(crate) use tasks::heart::Heart;
pub(crate) use tasks::settler::settle_now;

/// A map whose iteration order is the same in every run.
pub(crate) type Map<K, V> =
    std::collections::HashMap<K, V, std::hash::BuildHasherDefault<std::hash::DefaultHasher>>;
