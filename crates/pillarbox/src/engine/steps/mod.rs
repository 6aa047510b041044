//! The steps of the core: each changes the state under the lock, and does no I/O.

pub(crate) mod admission;
pub(crate) mod dispatch;
pub(crate) mod hot;
pub(crate) mod membership;
pub(crate) mod set_aside;
pub(crate) mod settlement;
pub(crate) mod verdicts;
