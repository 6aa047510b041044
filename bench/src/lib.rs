//! Benchmarks of Pillarbox: each measures beside its floor, in turns, in one run.

mod database;
pub mod engine;
pub mod figure;
pub mod instructions;
pub mod mariadb;
pub mod mongodb;
pub mod postgres;
pub mod report;
pub mod sinks;
pub mod sqlite;
