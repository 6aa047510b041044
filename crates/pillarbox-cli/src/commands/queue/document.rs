//! A claimed message as a JSON document: what `queue claim` prints and what long-lived commands read.

use std::collections::BTreeMap;

use jiff::Timestamp;
use pillarbox::queue::Message;
use serde::Serialize;

use crate::view::Content;

/// A claimed message. `item` comes first, so that a shell script can cut it out of the line.
#[derive(Debug, Serialize)]
pub(super) struct MessageDocument {
    /// `ID@TOKEN`, by which the message is settled.
    pub(super) item: String,
    pub(super) id: String,
    pub(super) token: i64,
    pub(super) topic: String,
    pub(super) payload: Content,
    pub(super) correlation_id: Option<String>,
    pub(super) message_id: Option<String>,
    pub(super) headers: BTreeMap<String, String>,
    pub(super) created_at: Timestamp,
    pub(super) due_at: Option<Timestamp>,
    /// Number of earlier attempts.
    pub(super) retry_count: u32,
    pub(super) last_error: Option<String>,
    pub(super) locked_by: String,
}

impl From<&Message> for MessageDocument {
    fn from(message: &Message) -> Self {
        let event = message.event();
        let pairs = event.headers().iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
        Self {
            item: message.id().to_string(),
            id: message.message_id().to_string(),
            token: message.id().token(),
            topic: message.topic().to_owned(),
            payload: Content::from(message.payload()),
            correlation_id: message.correlation_id().map(str::to_owned),
            message_id: event.message_id().map(str::to_owned),
            headers: pairs.collect(),
            created_at: message.created_at(),
            due_at: message.due_time(),
            retry_count: message.retry_count(),
            last_error: message.last_error().map(str::to_owned),
            locked_by: message.owner().to_string(),
        }
    }
}
