//! The engine's rules, one by one, on a paused clock.
#![expect(clippy::unwrap_used, reason = "a test ends where something is missing")]

mod breaker;
mod crash;
mod groups;
mod idle;
mod kit;
