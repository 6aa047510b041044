//! Interprets the `status` of an item: success, fault of the event, fault of the endpoint, or unknown.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// Words that mean success, in lower case and without separators.
const YES: &[&str] = &[
    "accepted",
    "alreadyexists",
    "alreadyprocessed",
    "completed",
    "complete",
    "created",
    "deduplicated",
    "delivered",
    "done",
    "duplicate",
    "duplicated",
    "enqueued",
    "ignored",
    "ingested",
    "inserted",
    "nocontent",
    "ok",
    "okay",
    "persisted",
    "processed",
    "published",
    "queued",
    "received",
    "saved",
    "scheduled",
    "sent",
    "skipped",
    "stored",
    "submitted",
    "succeeded",
    "success",
    "successful",
    "unchanged",
    "updated",
    "upserted",
    "written",
];

/// Words for a failure that is the event's fault.
const ITEM: &[&str] = &[
    "badrequest",
    "conflict",
    "denied",
    "error",
    "errored",
    "fail",
    "failed",
    "failure",
    "forbidden",
    "gone",
    "invalid",
    "invalidargument",
    "malformed",
    "notfound",
    "permissiondenied",
    "preconditionfailed",
    "refused",
    "rejected",
    "schemaerror",
    "toolarge",
    "unprocessable",
    "unprocessableentity",
    "unsupported",
    "validationerror",
    "validationfailed",
];

/// Words for a failure that is the endpoint's fault.
const ENDPOINT: &[&str] = &[
    "aborted",
    "badgateway",
    "busy",
    "connectionerror",
    "deadlineexceeded",
    "gatewayerror",
    "gatewaytimeout",
    "internal",
    "internalerror",
    "internalservererror",
    "maintenance",
    "networkerror",
    "notprocessed",
    "overloaded",
    "ratelimit",
    "ratelimited",
    "ratelimitexceeded",
    "requesttimeout",
    "resourceexhausted",
    "retry",
    "retryable",
    "retrylater",
    "servererror",
    "serviceunavailable",
    "temporarilyunavailable",
    "throttled",
    "throttling",
    "timedout",
    "timeout",
    "toomanyrequests",
    "transient",
    "tryagain",
    "unauthenticated",
    "unauthorised",
    "unauthorized",
    "unavailable",
    "unprocessed",
];

/// Maximum number of unknown words that a sink remembers in order to log each once.
const REMEMBERED_MAX: usize = 64;

/// The meaning of an item's `status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The endpoint accepted the event.
    Yes,
    /// The event failed by its own fault.
    Item,
    /// The event failed by its own fault, and no retry can help.
    TooLarge,
    /// The event failed by the endpoint's fault.
    Endpoint,
    /// The word is unknown.
    Unknown,
}

impl Meaning {
    /// The meaning of a word in any spelling: `INTERNAL_ERROR`, `internal-error` and `InternalError` are
    /// equal.
    pub(super) fn of_word(word: &str) -> Self {
        let code = word.split_whitespace().next().and_then(|code| code.parse().ok());
        if let Some(code) = code.filter(|code| (100..600).contains(code)) {
            return Self::of_code(code);
        }
        let letters = word.chars().filter(|letter| letter.is_alphanumeric());
        let plain: String = letters.flat_map(char::to_lowercase).collect();
        let among = |words: &[&str]| words.contains(&plain.as_str());
        if among(YES) {
            Self::Yes
        } else if among(ITEM) {
            Self::Item
        } else if among(ENDPOINT) {
            Self::Endpoint
        } else {
            Self::Unknown
        }
    }

    /// The meaning of an HTTP status code, as if it were the response to a request with only this event.
    pub(super) fn of_code(code: u64) -> Self {
        match code {
            200..=299 => Self::Yes,
            413 => Self::TooLarge,
            401 | 407 | 408 | 425 | 429 => Self::Endpoint,
            400..=499 => Self::Item,
            _ => Self::Endpoint,
        }
    }
}

/// The unknown words that an endpoint has used.
#[derive(Debug, Default)]
pub(super) struct UnknownWords(Mutex<BTreeSet<String>>);

impl UnknownWords {
    /// Logs a word that was not seen before. Once the memory is full, new words are not logged.
    pub(super) fn saw(&self, word: &str) {
        if self.remember(word) {
            tracing::warn!(
                status = word,
                "unknown status in the answer to a batch: its events are not taken as delivered, and are sent again; \
                 set api-answers = \"by-status\" if bodies do not tell how it went"
            );
        }
    }

    fn remember(&self, word: &str) -> bool {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.len() < REMEMBERED_MAX && seen.insert(word.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PBX-018
    #[test]
    fn a_word_means_the_same_however_it_is_spelt() {
        for (meaning, words) in [
            (Meaning::Yes, ["SUCCESS", "No Content", "already-processed", "200"]),
            (Meaning::Item, ["BAD_REQUEST", "NotFound", "Forbidden", "422 Unprocessable Entity"]),
            (Meaning::Endpoint, ["INTERNAL_ERROR", "GatewayError", "rate limited", "503"]),
            (Meaning::Unknown, ["", "quarantined", "not ok", "7"]),
        ] {
            assert_eq!(words.map(Meaning::of_word), [meaning; 4], "{words:?}");
        }
    }

    #[test]
    fn no_word_is_in_two_lists_or_can_not_be_met() {
        let all: Vec<&str> = [YES, ITEM, ENDPOINT].concat();
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
        assert!(all.iter().all(|word| word.bytes().all(|byte| byte.is_ascii_lowercase())));
    }

    #[test]
    fn unknown_words_are_remembered_once_and_not_without_end() {
        let words = UnknownWords::default();
        assert_eq!([words.remember("a"), words.remember("a"), words.remember("b")], [true, false, true]);
        let more = (0..1_000).filter(|n| words.remember(&n.to_string())).count();
        assert_eq!(more, REMEMBERED_MAX - 2);
    }
}
