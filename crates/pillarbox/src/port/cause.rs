//! Classes of endpoint failures, for metrics, logs and operators.

/// The class of an endpoint failure. Unlike an error text it quotes nothing from the endpoint's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Cause {
    /// The connection was refused.
    Refused,
    /// The host name has no address.
    Dns,
    /// The TLS handshake failed, for example because of an untrusted certificate.
    Tls,
    /// No connection, response or acknowledgement arrived in time.
    Timeout,
    /// The endpoint did not accept the credentials.
    Unauthorized,
    /// The stream, topic, queue or binding does not exist.
    Missing,
    /// The endpoint asks for fewer requests.
    Throttled,
    /// The endpoint refused every event so far as faulty, which points to the endpoint rather than to the
    /// events.
    RefusesAll,
    /// The endpoint responded with this HTTP status.
    Answered(u16),
    /// Anything else.
    #[default]
    Other,
}

impl Cause {
    /// The names of all classes, as used in metrics.
    pub const CLASSES: [&'static str; 11] = [
        "refused",
        "dns",
        "tls",
        "timeout",
        "unauthorized",
        "missing",
        "throttled",
        "not_found",
        "server_error",
        "refuses_all",
        "other",
    ];

    /// The index of its class in [`Cause::CLASSES`].
    #[must_use]
    pub const fn index(self) -> usize {
        match self {
            Self::Refused => 0,
            Self::Dns => 1,
            Self::Tls => 2,
            Self::Timeout | Self::Answered(408) => 3,
            Self::Unauthorized | Self::Answered(401 | 403) => 4,
            Self::Missing => 5,
            Self::Throttled | Self::Answered(429) => 6,
            Self::Answered(404) => 7,
            Self::Answered(500..=599) => 8,
            Self::RefusesAll => 9,
            Self::Answered(_) | Self::Other => 10,
        }
    }

    /// The name of its class.
    #[must_use]
    pub const fn class(self) -> &'static str {
        Self::CLASSES[self.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PBX-090
    #[test]
    fn every_cause_has_the_class_that_operators_look_for() {
        for (cause, class) in [
            (Cause::Refused, "refused"),
            (Cause::Dns, "dns"),
            (Cause::Tls, "tls"),
            (Cause::Timeout, "timeout"),
            (Cause::Unauthorized, "unauthorized"),
            (Cause::Missing, "missing"),
            (Cause::Throttled, "throttled"),
            (Cause::RefusesAll, "refuses_all"),
            (Cause::Answered(401), "unauthorized"),
            (Cause::Answered(403), "unauthorized"),
            (Cause::Answered(404), "not_found"),
            (Cause::Answered(408), "timeout"),
            (Cause::Answered(429), "throttled"),
            (Cause::Answered(500), "server_error"),
            (Cause::Answered(503), "server_error"),
            (Cause::Answered(302), "other"),
            (Cause::Other, "other"),
        ] {
            assert_eq!(cause.class(), class, "{cause:?}");
        }
    }
}
