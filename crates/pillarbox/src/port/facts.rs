//! What a store can do, as plain data.

use crate::model::{Layout, Limits};

/// The facts of a store; they select what the engine does and which conformance cases apply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// The kind of database: `sqlite`, `memory`, …
    pub kind: &'static str,
    /// A name for logs: stable, opaque, without secrets.
    pub name: String,
    /// How many slots groups are spread over.
    pub slots: i16,
    /// Whether two transactions can write at once, so that numbers may be drawn early and commit late.
    pub concurrent_writers: bool,
    /// Whether an event can be written in one transaction with business rows.
    pub transactions: bool,
    /// Whether rows are kept when the process ends.
    pub durable: bool,
    /// Whether several processes can share it.
    pub shared: bool,
    /// The bounds of fields.
    pub limits: Limits,
}

impl Facts {
    /// How its tables are laid out.
    #[must_use]
    pub const fn layout(&self) -> Layout {
        self.limits.layout
    }
}
