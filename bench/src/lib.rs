//! Benchmarks of Pillarbox: each measures beside its floor, in turns, in one run.

pub mod adapter;
mod database;
pub mod engine;
pub mod figure;
pub mod instructions;
pub mod mariadb;
pub mod mongodb;
pub mod peers;
pub mod postgres;
pub mod report;
pub mod sinks;
pub mod sqlite;
mod svg;
