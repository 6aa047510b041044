//! The status table: whose fault an answer is.

use http::StatusCode;

/// Whose fault a status says it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Blame {
    /// Nobody's: taken.
    None,
    /// The items'.
    Items,
    /// The items', and for one alone there is no hope.
    TooLarge,
    /// The endpoint's.
    Endpoint,
}

impl Blame {
    /// What the table says of a status.
    pub(crate) fn of(status: StatusCode) -> Self {
        match status.as_u16() {
            200..=299 => Self::None,
            400 | 422 => Self::Items,
            413 => Self::TooLarge,
            _ => Self::Endpoint,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RLY-042
    #[test]
    fn every_status_is_somebodys() {
        for code in 100..=599 {
            let expected = match code {
                200..=299 => Blame::None,
                400 | 422 => Blame::Items,
                413 => Blame::TooLarge,
                _ => Blame::Endpoint,
            };
            assert_eq!(Blame::of(StatusCode::from_u16(code).unwrap()), expected, "{code}");
        }
    }
}
