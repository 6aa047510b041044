//! The settings of a memory store.

use super::MemoryClock;
use crate::model::Limits;

/// The settings of a memory store.
#[derive(Debug, Clone)]
pub struct MemoryOptions {
    /// Name of the store in logs. Default: `memory`.
    pub name: String,
    /// Limits of event fields. Default: 1 MiB of payload, no NUL.
    pub limits: Limits,
    /// Maximum number of rows, including done and dead ones. A write beyond that fails as unavailable, like a
    /// full disk. Default: unlimited.
    pub max_rows: usize,
    /// Whether a leader takes the rows, as from a table of items. Default: false.
    pub has_leader: bool,
    /// Clock of the store. Default: starts at the wall clock's time.
    pub clock: MemoryClock,
}

impl Default for MemoryOptions {
    fn default() -> Self {
        Self {
            name: "memory".to_owned(),
            limits: Limits::default(),
            max_rows: usize::MAX,
            has_leader: false,
            clock: MemoryClock::default(),
        }
    }
}
