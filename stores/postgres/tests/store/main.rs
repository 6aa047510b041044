//! The PostgreSQL store beyond the conformance suite: what other designs were seen to get wrong, and failures.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic like tests do")]

mod bouncer;
mod clock;
mod encryption;
mod fence;
mod hot;
mod isolation;
mod joins;
mod kit;
mod late;
mod names;
mod numbers;
mod page_room;
mod placing;
mod pooler;
mod purge;
mod recovery;
mod reserved;
#[path = "../server/mod.rs"]
mod server;
mod wake;
