//! Terminal input and output of Pillarbox's programs: output, errors, exit codes and interrupts.

pub mod error;
pub mod exit;
pub mod interrupts;
pub mod output;
pub mod pipe;
pub mod printable;
pub mod program;
pub mod usage;
