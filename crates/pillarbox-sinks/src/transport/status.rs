//! Classifies HTTP status codes by whose fault a failure is.

use std::time::Duration;

use http::StatusCode;

/// Whose fault a response is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Blame {
    /// Success.
    None,
    /// One or more events of the request are at fault.
    Items,
    /// The request is too large. An event that is refused alone will never be accepted.
    TooLarge,
    /// The endpoint is at fault.
    Endpoint,
    /// Nobody is at fault: the endpoint asks for fewer requests.
    Throttled,
}

impl Blame {
    /// Classifies a status and the Retry-After delay that came with it.
    pub(crate) fn of(status: StatusCode, after: Option<Duration>) -> Self {
        match status.as_u16() {
            200..=299 => Self::None,
            400 | 422 => Self::Items,
            413 => Self::TooLarge,
            429 => Self::Throttled,
            503 if after.is_some() => Self::Throttled,
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
        for (code, after) in (100..=599).flat_map(|code| [(code, None), (code, Some(Duration::ZERO))]) {
            let expected = match (code, after) {
                (200..=299, _) => Blame::None,
                (400 | 422, _) => Blame::Items,
                (413, _) => Blame::TooLarge,
                (429, _) | (503, Some(_)) => Blame::Throttled,
                _ => Blame::Endpoint,
            };
            assert_eq!(Blame::of(StatusCode::from_u16(code).unwrap(), after), expected, "{code} {after:?}");
        }
    }
}
