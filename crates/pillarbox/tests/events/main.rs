//! The events door as users see it: on the memory store, under a paused clock.

#![expect(clippy::unwrap_used, reason = "a test that can't go on panics")]

mod kit;

mod bad_input;
mod blocking;
mod cancel;
mod compositions;
mod config;
mod context;
mod dead;
mod dispatcher;
mod envelope;
mod expiry;
mod failures;
mod hooks;
mod hot;
mod interceptors;
mod listeners;
mod observe;
mod operation;
mod poller;
mod poller_claims;
mod purge;
mod registry;
mod routes;
mod secrets;
mod shutdown;
mod sinks;
mod test_kit;
mod trace;
mod transactions;
mod typed;
