//! Selects the event headers that are forwarded as headers of a request or message.

use http::HeaderName;
use pillarbox::Event;

/// Maximum number of forwarded headers per event.
const FORWARDED_MAX: usize = 64;
/// Maximum bytes of all forwarded names and values: servers refuse more than about 8 KiB of headers.
const FORWARDED_BYTES_MAX: usize = 4_096;

/// Headers with a meaning for the connection, a proxy or a broker, and headers that identify the sender.
const WITHHELD: [&str; 31] = [
    "accept",
    "accept-encoding",
    "age",
    "authorization",
    "bcc",
    "cc",
    "connection",
    "cookie",
    "date",
    "expect",
    "forwarded",
    "from",
    "host",
    "http2-settings",
    "idempotency-key",
    "keep-alive",
    "max-forwards",
    "origin",
    "range",
    "referer",
    "set-cookie",
    "te",
    "traceparent",
    "tracestate",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "via",
    "warning",
    "www-authenticate",
];

/// Prefixes that belong to Pillarbox, to a standard, to a proxy or to a broker.
const WITHHELD_PREFIXES: [&str; 12] = [
    "access-control-",
    "ce-",
    "ce_",
    "cloudevents",
    "content-",
    "if-",
    "nats-",
    "pillarbox-",
    "proxy-",
    "sec-",
    "webhook-",
    "x-forwarded-",
];

/// The event's headers that are safe to forward, with names in lower case, up to the limits.
pub(crate) fn forwarded_headers(event: &Event) -> impl Iterator<Item = (String, String)> {
    let mut bytes = 0;
    event
        .headers()
        .iter()
        .filter(|(name, value)| is_safe(name, value))
        .take(FORWARDED_MAX)
        .take_while(move |(name, value)| {
            bytes += name.len() + value.len();
            bytes <= FORWARDED_BYTES_MAX
        })
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
}

fn is_safe(name: &str, value: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    HeaderName::try_from(name).is_ok()
        && is_visible(value)
        && WITHHELD.binary_search(&lower.as_str()).is_err()
        && !WITHHELD_PREFIXES.iter().any(|prefix| lower.starts_with(prefix))
        // RabbitMQ and its plugins read headers such as `x-delay` and `x-death`.
        && !matches!(lower.as_str(), "x-delay" | "x-death" | "x-match" | "x-real-ip" | "x-http-method-override")
}

/// Whether every protocol carries the value unchanged: printable ASCII without leading or trailing spaces.
pub(crate) fn is_visible(value: &str) -> bool {
    value.bytes().all(|b| matches!(b, b' '..=b'~')) && value.trim() == value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(headers: &[(&str, &str)]) -> Vec<String> {
        let builder = Event::text("t", "{}");
        let event = headers.iter().fold(builder, |builder, (name, value)| builder.header(*name, *value));
        forwarded_headers(&event.build().unwrap()).map(|(name, _)| name).collect()
    }

    #[test]
    fn the_list_can_be_searched_by_halves() {
        assert!(WITHHELD.is_sorted());
    }

    /// PBX-023
    #[test]
    fn headers_that_mean_something_to_others_stay_behind() {
        for name in WITHHELD {
            assert!(names(&[(&name.to_uppercase(), "x")]).is_empty(), "{name}");
        }
        for name in ["Content-Length", "Nats-Msg-Id", "ce-id", "webhook-id", "X-Forwarded-For", "x-delay"] {
            assert!(names(&[(name, "x")]).is_empty(), "{name}");
        }
        for (name, value) in
            [("a b", "x"), ("a:b", "x"), ("ü", "x"), ("a", "x\r\nhost: y"), ("a", "ü"), ("a", " x")]
        {
            assert!(names(&[(name, value)]).is_empty(), "{name}");
        }
        assert_eq!(names(&[("X-Region", "eu west"), ("b", "")]), ["x-region", "b"]);
    }

    #[test]
    fn what_is_carried_is_bounded() {
        let many: Vec<String> = (0..100).map(|n| format!("h{n:03}")).collect();
        let many: Vec<(&str, &str)> = many.iter().map(|name| (name.as_str(), "v")).collect();
        assert_eq!(names(&many).len(), FORWARDED_MAX);
        let large = "x".repeat(3_000);
        assert_eq!(names(&[("a", &large), ("b", &large)]), ["a"]);
    }
}
