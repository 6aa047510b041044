//! Benchmarks of Pillarbox: each measures beside its floor, in turns, in one run.

pub mod engine;
pub mod figure;
pub mod postgres;
pub mod report;
pub mod sqlite;
