//! The one engine: intake, bounded buffer, groups, workers, fenced settling, membership.
//!
//! `core` is plain state: it takes the time and randomness as arguments and does no I/O. The loops around it
//! (`worker`, `settler`, `reader`, `member`) own the calls to store and sink.

mod aside;
mod breaker;
mod busy;
mod careful;
mod caught;
mod claimer;
mod claims;
mod core;
mod dispatch;
mod due;
mod groups;
mod heart;
mod held;
mod intake;
mod item;
mod judge;
mod known;
mod lead;
mod lines;
mod member;
mod membership;
mod notes;
mod pace;
mod reader;
mod routes;
mod running;
mod settings;
mod settlement;
mod settler;
mod shared;
mod slots;
mod sweep;
#[cfg(test)]
mod tests;
mod worker;

pub(crate) use caught::{called, caught};
pub(crate) use claimer::{Claimer, claim_at_once};
pub(crate) use core::Core;
pub(crate) use heart::Heart;
pub(crate) use routes::RouteBreakers;
pub use running::{Engine, EngineHealth, EngineParts};
pub use settings::{EngineSettings, OnDead, Ungrouped};
pub(crate) use settler::settle_now;
pub(crate) use shared::{Reservation, Shared};

/// A map whose iteration order is the same in every run.
pub(crate) type Map<K, V> =
    std::collections::HashMap<K, V, std::hash::BuildHasherDefault<std::hash::DefaultHasher>>;
