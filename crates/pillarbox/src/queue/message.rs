//! A claimed message, as handlers receive it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use super::{MessageId, WorkItemId};
use crate::model::{Event, OwnerId, Payload, Row};
use crate::port::Delivery;

/// A message under a claim. Cheap to clone.
#[derive(Clone)]
pub struct Message {
    item: WorkItemId,
    owner: OwnerId,
    event: Event,
    created_at: Timestamp,
    last_error: Option<String>,
    /// Set once the handler has completed the message in its own transaction; shared by all clones.
    settled: Arc<AtomicBool>,
    cancellation: CancellationToken,
}

impl Message {
    pub(super) fn of_row(row: Row, owner: &OwnerId) -> Option<Self> {
        let event = row.event.ok()?;
        let item =
            WorkItemId { message: MessageId(row.id), token: row.token, seq: row.seq, attempts: row.attempts };
        let (created_at, last_error) = (row.created_at, row.last_error);
        Some(Self {
            item,
            owner: owner.clone(),
            event,
            created_at,
            last_error,
            settled: Arc::default(),
            cancellation: CancellationToken::new(),
        })
    }

    pub(super) fn of_delivery(
        delivery: &Delivery,
        owner: &OwnerId,
        cancellation: CancellationToken,
    ) -> Option<Self> {
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
            last_error: delivery.last_error().map(str::to_owned),
            settled: Arc::default(),
            cancellation,
        })
    }

    /// Id of the claim on this message, for `ack`, `abandon`, `fail` and `extend`.
    #[must_use]
    pub fn id(&self) -> &WorkItemId {
        &self.item
    }

    /// Id of the message, which stays the same across retries. Use it to make a handler idempotent.
    #[must_use]
    pub fn message_id(&self) -> &MessageId {
        &self.item.message
    }

    /// Topic of the message, which is its event type.
    #[must_use]
    pub fn topic(&self) -> &str {
        self.event.event_type()
    }

    /// Payload of the message.
    #[must_use]
    pub fn payload(&self) -> &Payload {
        self.event.payload()
    }

    /// The whole event: headers, keys, trace and payload. `json_as` decodes the payload.
    #[must_use]
    pub fn event(&self) -> &Event {
        &self.event
    }

    /// Time of the enqueue, by the database's clock.
    #[must_use]
    pub fn created_at(&self) -> Timestamp {
        self.created_at
    }

    /// Whether its handler has completed it with [`Queue::complete_on`](super::Queue::complete_on).
    #[must_use]
    pub fn is_processed(&self) -> bool {
        self.is_settled()
    }

    /// Time of completion: always `None`, because a claimed message is not done.
    #[must_use]
    pub fn processed_at(&self) -> Option<Timestamp> {
        None
    }

    /// Owner that completed the message: always `None`, because a claimed message is not done.
    #[must_use]
    pub fn processed_by(&self) -> Option<&str> {
        None
    }

    /// Number of attempts before the current one.
    #[must_use]
    pub fn retry_count(&self) -> u32 {
        self.item.attempts.saturating_sub(1)
    }

    /// Error of the last failed attempt, if any.
    #[must_use]
    pub fn last_error(&self) -> Option<&str> {
        self.last_error.as_deref()
    }

    /// Id that related messages share, if any.
    #[must_use]
    pub fn correlation_id(&self) -> Option<&str> {
        self.event.correlation_id()
    }

    /// Due time of the message, if one was set.
    #[must_use]
    pub fn due_time(&self) -> Option<Timestamp> {
        self.event.due().map(|due| due.resolve(self.created_at))
    }

    /// Owner of the claim.
    #[must_use]
    pub fn owner(&self) -> &OwnerId {
        &self.owner
    }

    /// Tells the handler to stop: cancelled when the worker shuts down, when the claim is lost or the deadline
    /// has passed, and when the handler has returned.
    ///
    /// The handler's own future is dropped when the claim is lost or the deadline has passed. Pass the token to
    /// tasks and threads that it starts. A message that was claimed without a worker is never cancelled.
    #[must_use]
    pub fn cancellation(&self) -> &CancellationToken {
        &self.cancellation
    }

    pub(super) fn mark_settled(&self) {
        self.settled.store(true, Ordering::Release);
    }

    pub(super) fn is_settled(&self) -> bool {
        self.settled.load(Ordering::Acquire)
    }
}

/// Leaves out the payload, which must never reach a log.
impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message")
            .field("id", &self.item.to_string())
            .field("topic", &self.topic())
            .field("retry_count", &self.retry_count())
            .finish_non_exhaustive()
    }
}
