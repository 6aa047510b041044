//! The engine's rules, one by one, on a paused clock.

mod breaker;
mod crash;
mod groups;
mod idle;
mod kit;
