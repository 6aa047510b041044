//! The commands as a user runs them: the real binary on real SQLite files, and on a PostgreSQL server where one is named.

#![expect(clippy::unwrap_used, reason = "a test that can't go on has failed")]

#[cfg(unix)]
mod dashboard;
mod dead;
mod demo;
mod events;
mod groups;
mod help;
mod join;
mod layout;
mod long_lived;
#[cfg(target_os = "linux")]
mod memory;
mod migrate;
mod nodes;
mod outbox;
#[cfg(unix)]
mod pipes;
mod postgres;
mod purge;
mod queue;
#[cfg(unix)]
mod relay;
#[cfg(unix)]
mod rights;
mod secrets;
mod stats;
mod target;
mod usage;
mod why;
#[cfg(unix)]
mod work;
mod write;
