//! How the programs of Pillarbox speak to people and scripts: answers, errors, exit codes, interrupts.

pub mod exit;
pub mod failure;
pub mod interrupts;
pub mod output;
pub mod pipe;
pub mod program;
pub mod redact;
pub mod usage;
