//! The two kinds of types that are derived, and all they differ in.

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
