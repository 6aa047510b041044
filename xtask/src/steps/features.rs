//! Features that are off by default but are built and tested too.

use crate::process;
use pillarbox_servers::install;

/// The Kafka sink. Its client is C code that needs `make`.
const KAFKA: [&str; 2] = ["--features", "pillarbox-sinks/kafka"];
const MAKE: &str = "make";

/// The arguments for builds, and the features that had to be left out.
#[derive(Debug, Default)]
pub(super) struct Features {
    pub(super) arguments: &'static [&'static str],
    pub(super) lack: Option<String>,
}

impl Features {
    /// Installs the tools that the features need.
    pub(super) fn prepare() -> Self {
        let made = if process::is_there(MAKE) { Ok(()) } else { install(MAKE) };
        Self::with(made)
    }

    fn with(made: Result<(), String>) -> Self {
        match made {
            Ok(()) => Self { arguments: &KAFKA, lack: None },
            Err(why) => Self { arguments: &[], lack: Some(format!("the sink for Kafka: {why}")) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_not_be_built_is_left_out_and_named() {
        assert_eq!(Features::with(Ok(())).arguments, KAFKA);
        let without = Features::with(Err("install the package `make`".into()));
        assert!(without.arguments.is_empty());
        assert_eq!(without.lack.unwrap(), "the sink for Kafka: install the package `make`");
    }
}
