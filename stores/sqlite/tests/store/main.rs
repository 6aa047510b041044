//! The SQLite store beyond the conformance suite: transactions, tables, faults, several handles on one file.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic like tests do")]

mod deployment;
mod faults;
mod flowcatalyst;
mod joins;
mod kit;
mod oversized;
mod rows;
mod schema;
mod sharing;
mod transaction;
