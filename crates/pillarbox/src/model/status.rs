//! Where an event stands.

use std::fmt;

/// The status of a row, with the codes of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum Status {
    /// Written, not yet tried.
    New = 0,
    /// Accepted by its listener or sink.
    Done = 1,
    /// Failed, to be tried again.
    Retry = 2,
    /// Given up, with a reason; only an operator brings it back.
    Dead = 3,
}

impl Status {
    /// All of them, in the order of their codes.
    pub const ALL: [Self; 4] = [Self::New, Self::Done, Self::Retry, Self::Dead];

    /// The code in the table.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// Reads a code.
    #[must_use]
    pub fn from_code(code: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|status| i64::from(status.code()) == code)
    }

    /// New or retry: still to be delivered.
    #[must_use]
    pub const fn is_pending(self) -> bool {
        matches!(self, Self::New | Self::Retry)
    }

    /// The word for people and programs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Done => "done",
            Self::Retry => "retry",
            Self::Dead => "dead",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// EVT-041
    #[test]
    fn codes_are_those_of_the_table() {
        let codes: Vec<_> = Status::ALL.iter().map(|s| (s.code(), s.as_str())).collect();
        assert_eq!(codes, [(0, "new"), (1, "done"), (2, "retry"), (3, "dead")]);
        assert_eq!(Status::from_code(2), Some(Status::Retry));
        assert_eq!(Status::from_code(4), None);
    }
}
