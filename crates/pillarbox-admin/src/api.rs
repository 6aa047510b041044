//! One file per topic: the answers of the routes, and how they are made.

pub(crate) mod audit;
pub(crate) mod dead;
pub(crate) mod events;
pub(crate) mod groups;
pub(crate) mod health;
pub(crate) mod joins;
pub(crate) mod nodes;
pub(crate) mod sources;
pub(crate) mod stats;
pub(crate) mod why;
