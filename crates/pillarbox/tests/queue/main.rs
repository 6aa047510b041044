//! The queue door, on the memory store: what every store does for it is in the conformance suite.

mod handle;
mod input;
mod joins;
mod kit;
#[path = "../events/kit/logs.rs"]
mod logs;
mod many;
mod observe;
mod worker;
