//! The relay: drains outboxes, each to its sink, in order within each group.
