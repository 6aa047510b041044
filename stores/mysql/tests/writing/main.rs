//! Writing on transactions of others, with sqlx and with text alone.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic like tests do")]

mod any_driver;
mod dropped;
#[path = "../store/kit.rs"]
#[allow(dead_code, reason = "the tests of the store use the rest of it")]
mod kit;
mod messages;
