//! The parts of the engine's state: plain data, owned by the core.

pub(crate) mod aside;
pub(crate) mod breaker;
pub(crate) mod buffer;
pub(crate) mod busy;
pub(crate) mod claim_size;
pub(crate) mod due;
pub(crate) mod failures;
pub(crate) mod groups;
pub(crate) mod halves;
pub(crate) mod held;
pub(crate) mod in_flight;
pub(crate) mod item;
pub(crate) mod leases;
pub(crate) mod node;
pub(crate) mod notes;
pub(crate) mod pace;
pub(crate) mod quarantine;
pub(crate) mod schedule;
pub(crate) mod settings;
pub(crate) mod settle_queue;
pub(crate) mod slots;
