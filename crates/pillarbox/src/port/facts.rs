//! The capabilities and limits of a store, as plain data.

use crate::model::{Layout, Limits};

/// The facts of a store. They select the engine's behaviour and the conformance cases that apply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// The kind of database: `sqlite`, `memory`, …
    pub kind: &'static str,
    /// A name for logs: stable, opaque, without secrets.
    pub name: String,
    /// The number of slots shared between nodes.
    pub slots: i16,
    /// Whether transactions can write concurrently, so that a row with a lower number may be committed later.
    pub concurrent_writers: bool,
    /// Whether claims made at the same time pass over each other's rows, so that two at once are faster than one.
    pub concurrent_claims: bool,
    /// Whether two settles of a node run at the same time. Where one waits for the other, or only one can write, a
    /// node makes one at a time.
    pub concurrent_settles: bool,
    /// Whether events can be written in the same transaction as business rows.
    pub transactions: bool,
    /// Whether rows survive the end of the process.
    pub durable: bool,
    /// Whether several processes can use the store at once.
    pub shared: bool,
    /// The size limits of fields.
    pub limits: Limits,
}

impl Facts {
    /// The layout of its tables.
    #[must_use]
    pub const fn layout(&self) -> Layout {
        self.limits.layout
    }
}
