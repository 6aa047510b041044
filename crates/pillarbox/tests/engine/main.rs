//! The engine's rules, one by one, on a paused clock.
#![expect(clippy::unwrap_used, reason = "a test ends where something is missing")]

mod batches;
mod beside;
mod breaker;
mod crash;
mod delivering;
mod due;
mod gated;
mod groups;
mod idle;
mod kit;
mod nodes;
mod outage;
mod outcomes;
mod pacing;
mod panics;
mod reading;
mod repeated;
mod sweep;
mod tampered;
mod timed;
