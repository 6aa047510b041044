//! Exit codes, which scripts rely on.

/// The exit code of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Success, also for an empty list.
    Done = 0,
    /// The command was tried and failed.
    Failed = 1,
    /// Wrong usage or configuration.
    Usage = 2,
    /// A named object does not exist.
    NotFound = 3,
    /// Another owner holds the rows by now.
    OwnershipLost = 4,
    /// The store is unavailable.
    Unavailable = 5,
}

/// The table at the end of `--help`.
pub const TABLE: &str = "\
Exit codes:
  0  done (an empty list is done)
  1  failed
  2  wrong usage or configuration
  3  a named thing is not there
  4  ownership lost
  5  store unavailable";

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_of_the_help() {
        let all =
            [Exit::Done, Exit::Failed, Exit::Usage, Exit::NotFound, Exit::OwnershipLost, Exit::Unavailable];
        let codes: Vec<u8> = all.iter().map(|exit| *exit as u8).collect();
        assert_eq!(codes, [0, 1, 2, 3, 4, 5]);
        assert!(codes.iter().all(|code| TABLE.contains(&format!("\n  {code}  "))));
    }
}
