//! The queue door, on the memory store: what every store does for it is in the conformance suite.
#![expect(clippy::unwrap_used, reason = "a test that can't go on panics")]

mod handle;
mod idleness;
mod input;
mod joins;
mod kit;
mod log;
#[path = "../events/kit/logs.rs"]
mod logs;
mod many;
mod panics;
mod purge;
mod worker;
