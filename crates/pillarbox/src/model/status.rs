//! The status of an event.

use std::fmt;

/// The status of a row; the discriminants are the codes in tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum Status {
    /// Written, and not attempted yet.
    New = 0,
    /// Accepted by its listener or sink.
    Done = 1,
    /// Failed, and waiting for the next attempt.
    Retry = 2,
    /// Given up, with a reason; only an operator can replay it.
    Dead = 3,
}

impl Status {
    /// All values, ordered by code.
    pub const ALL: [Self; 4] = [Self::New, Self::Done, Self::Retry, Self::Dead];

    /// The code in the table.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// Reads a code; `None` if it is unknown.
    #[must_use]
    pub fn from_code(code: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|status| i64::from(status.code()) == code)
    }

    /// Whether the event is still to be delivered: new or retry.
    #[must_use]
    pub const fn is_pending(self) -> bool {
        matches!(self, Self::New | Self::Retry)
    }

    /// The name for people and programs.
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
