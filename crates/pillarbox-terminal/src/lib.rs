//! How the programs of Pillarbox speak to people and scripts: answers, errors, exit codes, interrupts.

pub mod error;
pub mod exit;
pub mod interrupts;
pub mod output;
pub mod pipe;
pub mod printable;
pub mod program;
pub mod usage;
