//! The settings of a memory store.

use super::MemoryClock;
use crate::model::Limits;

/// How a memory store is made.
#[derive(Debug, Clone)]
pub struct MemoryOptions {
    /// Its name in logs. Default: `memory`.
    pub name: String,
    /// The bounds of fields. Default: 1 MiB of payload, no NUL.
    pub limits: Limits,
    /// Most rows it holds, done and dead ones included; a write beyond that is refused as unavailable, like a
    /// full disk. Default: no bound but memory.
    pub max_rows: usize,
    /// Whether a leader takes the rows, group by group, as from tables whose rows have no numbers. Default: no.
    pub led: bool,
    /// Its clock. Default: starts at the wall clock's time.
    pub clock: MemoryClock,
}

impl Default for MemoryOptions {
    fn default() -> Self {
        Self {
            name: "memory".to_owned(),
            limits: Limits::default(),
            max_rows: usize::MAX,
            led: false,
            clock: MemoryClock::default(),
        }
    }
}
