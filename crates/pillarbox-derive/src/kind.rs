//! The two kinds of names that are derived, and all they differ in.

use proc_macro2::Span;
use syn::{Error, Result};

/// What tells the derive of one trait from that of the other.
pub(crate) struct Kind {
    /// The trait's name in `pillarbox`.
    pub(crate) trait_name: &'static str,
    /// The helper attribute.
    pub(crate) attribute: &'static str,
    /// How an error message calls it, article included.
    pub(crate) noun: &'static str,
    /// The longest name that fits the column of every store.
    pub(crate) max_bytes: usize,
}

pub(crate) const EVENT: Kind =
    Kind { trait_name: "EventType", attribute: "event_type", noun: "an event type", max_bytes: 255 };

pub(crate) const AGGREGATE: Kind = Kind {
    trait_name: "AggregateType",
    attribute: "aggregate_type",
    noun: "an aggregate type",
    max_bytes: 64,
};

impl Kind {
    /// Refuses a name that a store could not hold.
    pub(crate) fn check(&self, name: &str, span: Span) -> Result<()> {
        let (noun, max, length) = (self.noun, self.max_bytes, name.len());
        if name.is_empty() {
            return Err(Error::new(span, format!("the name of {noun} is empty")));
        }
        if name.contains('\0') {
            let why = format!("the name of {noun} has a NUL character, which not every store can hold");
            return Err(Error::new(span, why));
        }
        if length > max {
            let why = format!("the name of {noun} has at most {max} bytes, this one has {length}");
            return Err(Error::new(span, why));
        }
        Ok(())
    }
}
