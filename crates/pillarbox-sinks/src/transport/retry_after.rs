//! Parses the Retry-After header.

use std::time::Duration;

use http::HeaderMap;
use http::header::{DATE, RETRY_AFTER};
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;

/// The delay that the headers ask for, at most `max`. An invalid value counts as none.
pub(super) fn retry_after(headers: &HeaderMap, now: Timestamp, max: Duration) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let digits = !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit());
    let asked = if digits {
        // A number that overflows still asks for a long delay.
        value.parse().map_or(Duration::MAX, Duration::from_secs)
    } else {
        // Relative to the endpoint's clock, if it sends a Date header, because our clock may differ.
        let from = headers.get(DATE).and_then(|date| http_date(date.to_str().ok()?)).unwrap_or(now);
        let wait = http_date(value)?.duration_since(from);
        wait.try_into().unwrap_or(Duration::ZERO)
    };
    Some(asked.min(max))
}

fn http_date(text: &str) -> Option<Timestamp> {
    const PARSER: DateTimeParser = DateTimeParser::new();
    PARSER.parse_timestamp(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(value: &str, date: Option<&str>) -> Option<u64> {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, value.parse().unwrap());
        if let Some(date) = date {
            headers.insert(DATE, date.parse().unwrap());
        }
        let now = "2026-11-16T10:00:00Z".parse().unwrap();
        retry_after(&headers, now, Duration::from_secs(300)).map(|wait| wait.as_secs())
    }

    /// PBX-018
    #[test]
    fn seconds_and_dates_are_read_and_capped() {
        assert_eq!(wait("7", None), Some(7));
        assert_eq!(wait("0", None), Some(0));
        assert_eq!(wait("86400", None), Some(300));
        assert_eq!(wait(&"9".repeat(40), None), Some(300));
        assert_eq!(wait("Mon, 16 Nov 2026 10:00:30 GMT", None), Some(30));
        assert_eq!(wait("Mon, 16 Nov 2026 09:00:00 GMT", None), Some(0));
        assert_eq!(wait("Mon, 16 Nov 2026 12:00:00 GMT", None), Some(300));
    }

    /// PBX-018
    #[test]
    fn a_date_is_counted_from_the_endpoints_own_clock() {
        let there = Some("Mon, 16 Nov 2026 08:00:00 GMT");
        assert_eq!(wait("Mon, 16 Nov 2026 08:00:20 GMT", there), Some(20));
        assert_eq!(wait("Mon, 16 Nov 2026 10:00:20 GMT", Some("rubbish")), Some(20));
    }

    #[test]
    fn rubbish_asks_for_no_wait() {
        for rubbish in ["", "-1", "1.5", "soon", "9999-99-99", "Mon, 99 Foo 2026 10:00:30 GMT"] {
            assert_eq!(wait(rubbish, None), None, "{rubbish}");
        }
    }
}
