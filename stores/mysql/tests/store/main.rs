//! The MySQL store on its own: what the conformance suite can't see.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic like tests do")]

mod bytes;
mod claims;
mod deadlocks;
mod fence;
mod items;
mod joins;
mod kit;
mod late;
mod numbers;
mod purge;
mod settles;
