//! Events for display: without payloads and header values in lists, complete in `show`.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use pillarbox::model::{Attempt, Event, Payload, Record, Status};
use pillarbox::port::Shown;
use serde::Serialize;

/// An event in a list.
#[derive(Debug, Serialize)]
pub(crate) struct Summary {
    pub(crate) id: String,
    pub(crate) seq: i64,
    pub(crate) status: Status,
    #[serde(rename = "type")]
    pub(crate) event_type: Option<String>,
    pub(crate) aggregate_type: Option<String>,
    pub(crate) aggregate_id: Option<String>,
    pub(crate) group: Option<String>,
    pub(crate) tenant: Option<String>,
    pub(crate) message_id: Option<String>,
    pub(crate) correlation_id: Option<String>,
    pub(crate) slot: i16,
    pub(crate) attempts: u32,
    pub(crate) occurred_at: Option<Timestamp>,
    pub(crate) created_at: Timestamp,
    pub(crate) available_at: Timestamp,
    pub(crate) expires_at: Option<Timestamp>,
    pub(crate) ended_at: Option<Timestamp>,
    pub(crate) last_error: Option<String>,
    pub(crate) locked_by: Option<String>,
    pub(crate) locked_until: Option<Timestamp>,
    pub(crate) payload_size: Option<usize>,
    /// The reason why the row can't be decoded to an event.
    pub(crate) malformed: Option<String>,
}

impl From<&Record> for Summary {
    fn from(record: &Record) -> Self {
        let event = record.event.as_ref().ok();
        let text = |field: fn(&Event) -> Option<&str>| event.and_then(field).map(str::to_owned);
        Self {
            id: record.id.to_string(),
            seq: record.seq.0,
            status: record.status,
            event_type: text(|event| Some(event.event_type())),
            aggregate_type: text(|event| Some(event.aggregate_type())),
            aggregate_id: text(Event::aggregate_id),
            group: record.group.as_ref().map(ToString::to_string),
            tenant: text(Event::tenant_id),
            message_id: text(Event::message_id),
            correlation_id: text(Event::correlation_id),
            slot: record.slot.0,
            attempts: record.attempts,
            occurred_at: event.map(Event::occurred_at),
            created_at: record.created_at,
            available_at: record.available_at,
            expires_at: record.expires_at,
            ended_at: record.done_at,
            last_error: record.last_error.clone(),
            locked_by: record.locked_by.clone(),
            locked_until: record.locked_until,
            payload_size: event.map(|event| event.payload().size()),
            malformed: record.event.as_ref().err().map(ToString::to_string),
        }
    }
}

/// One event with its headers, payload and failed attempts.
#[derive(Debug, Serialize)]
pub(crate) struct Whole {
    #[serde(flatten)]
    pub(crate) summary: Summary,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) payload: Option<Content>,
    pub(crate) failures: Vec<FailedAttempt>,
}

/// A payload, unchanged.
#[derive(Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Content {
    /// The text of the payload.
    Text(String),
    /// The bytes of the payload in base64.
    Base64(String),
}

/// A failed attempt.
#[derive(Debug, Serialize)]
pub(crate) struct FailedAttempt {
    pub(crate) number: u32,
    pub(crate) at: Timestamp,
    pub(crate) by: String,
    pub(crate) error: String,
}

impl From<&Shown> for Whole {
    fn from(shown: &Shown) -> Self {
        let event = shown.record.event.as_ref().ok();
        let headers = event.map(|event| {
            let pairs = event.headers().iter();
            pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
        });
        Self {
            summary: Summary::from(&shown.record),
            headers: headers.unwrap_or_default(),
            payload: event.map(|event| Content::from(event.payload())),
            failures: shown.attempts.iter().map(FailedAttempt::from).collect(),
        }
    }
}

impl From<&Payload> for Content {
    fn from(payload: &Payload) -> Self {
        match payload {
            Payload::Json(text) => Self::Text(text.to_string()),
            Payload::Bytes(bytes) => Self::Base64(STANDARD.encode(bytes)),
        }
    }
}

impl From<&Attempt> for FailedAttempt {
    fn from(attempt: &Attempt) -> Self {
        let Attempt { number, at, by, error } = attempt.clone();
        Self { number, at, by, error }
    }
}
