//! A message as a worker gets it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jiff::Timestamp;

use super::{MessageId, WorkItemId};
use crate::model::{Event, OwnerId, Payload, Row};
use crate::port::Delivery;

/// A claimed message. Cheap to clone.
#[derive(Clone)]
pub struct Message {
    item: WorkItemId,
    owner: OwnerId,
    event: Event,
    created_at: Timestamp,
    last_error: Option<String>,
    /// Settled by its handler, in a transaction of its own.
    settled: Arc<AtomicBool>,
}

impl Message {
    pub(super) fn of_row(row: Row, owner: &OwnerId) -> Option<Self> {
        let event = row.event.ok()?;
        let item =
            WorkItemId { message: MessageId(row.id), token: row.token, seq: row.seq, attempts: row.attempts };
        let (created_at, last_error) = (row.created_at, row.last_error);
        Some(Self { item, owner: owner.clone(), event, created_at, last_error, settled: Arc::default() })
    }

    pub(super) fn of_delivery(delivery: &Delivery, owner: &OwnerId) -> Option<Self> {
        let claimed = delivery.claimed.as_ref()?;
        let item = WorkItemId {
            message: MessageId(delivery.event.id().clone()),
            token: claimed.token,
            seq: delivery.seq,
            attempts: delivery.attempt,
        };
        Some(Self {
            item,
            owner: owner.clone(),
            event: delivery.event.clone(),
            created_at: claimed.created_at,
            last_error: claimed.last_error.clone(),
            settled: Arc::default(),
        })
    }

    /// The claim on it: what is acknowledged.
    #[must_use]
    pub fn id(&self) -> &WorkItemId {
        &self.item
    }

    /// The message: what stays the same across retries. Handlers that must not act twice remember it.
    #[must_use]
    pub fn message_id(&self) -> &MessageId {
        &self.item.message
    }

    /// The topic.
    #[must_use]
    pub fn topic(&self) -> &str {
        self.event.event_type()
    }

    /// The payload.
    #[must_use]
    pub fn payload(&self) -> &Payload {
        self.event.payload()
    }

    /// The whole event: headers, keys, trace, and the payload as a value by `json_as`.
    #[must_use]
    pub fn event(&self) -> &Event {
        &self.event
    }

    /// When it was enqueued, by the database's clock.
    #[must_use]
    pub fn created_at(&self) -> Timestamp {
        self.created_at
    }

    /// Whether it is done: not while someone holds it.
    #[must_use]
    pub fn is_processed(&self) -> bool {
        self.is_settled()
    }

    /// When it was done: not yet.
    #[must_use]
    pub fn processed_at(&self) -> Option<Timestamp> {
        None
    }

    /// Who ended it: nobody yet.
    #[must_use]
    pub fn processed_by(&self) -> Option<&str> {
        None
    }

    /// How often it was tried before.
    #[must_use]
    pub fn retry_count(&self) -> u32 {
        self.item.attempts.saturating_sub(1)
    }

    /// Why it failed last.
    #[must_use]
    pub fn last_error(&self) -> Option<&str> {
        self.last_error.as_deref()
    }

    /// What ties related messages together.
    #[must_use]
    pub fn correlation_id(&self) -> Option<&str> {
        self.event.correlation_id()
    }

    /// When it was due, if a time was set.
    #[must_use]
    pub fn due_time(&self) -> Option<Timestamp> {
        self.event.due().map(|due| due.resolve(self.created_at))
    }

    /// Who holds it.
    #[must_use]
    pub fn owner(&self) -> &OwnerId {
        &self.owner
    }

    pub(super) fn mark_settled(&self) {
        self.settled.store(true, Ordering::Release);
    }

    pub(super) fn is_settled(&self) -> bool {
        self.settled.load(Ordering::Acquire)
    }
}

/// Payloads never reach a log.
impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message")
            .field("id", &self.item.to_string())
            .field("topic", &self.topic())
            .field("retry_count", &self.retry_count())
            .finish_non_exhaustive()
    }
}
