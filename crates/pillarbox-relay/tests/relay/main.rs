//! The relay as a library: its configuration, what it delivers, its admin server.

#![expect(clippy::unwrap_used, reason = "a test that can't go on has failed")]

mod admin;
mod brake;
mod config;
mod delivery;
mod items;
mod kit;
mod locked;
mod otlp;
mod pacing;
mod restart;
mod secrets;
#[path = "../../../../stores/postgres/tests/server/mod.rs"]
mod server;
