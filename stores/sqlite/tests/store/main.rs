//! The SQLite store beyond the conformance suite: transactions, tables, faults, several handles on one file.

mod compile_fail;
mod faults;
mod kit;
mod rows;
mod schema;
mod sharing;
mod transaction;
