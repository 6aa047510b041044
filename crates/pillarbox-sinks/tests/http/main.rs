//! The sinks that speak HTTP, and the one that writes lines, against real sockets.
#![cfg(all(feature = "http", feature = "webhook", feature = "stdout"))]
#![expect(clippy::unwrap_used, reason = "what a test sets up must be there")]

mod answers;
mod batch;
mod hostile;
mod kit;
mod lines;
#[path = "../../../pillarbox/tests/events/kit/logs.rs"]
mod logs;
mod statuses;
mod token;
mod webhook;
