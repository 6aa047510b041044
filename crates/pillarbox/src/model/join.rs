//! Joins: fan-ins of messages.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;

use super::id::text;
use super::limits::{self, EVENT_ID_MAX};
use super::{Event, EventId, Headers, Invalid, NewRow, Placement, Status};

/// The maximum length of a grouping key, in characters.
pub const GROUPING_KEY_MAX: usize = 255;
/// The maximum number of steps of a join.
pub const JOIN_STEPS_MAX: u32 = 1_000_000;

/// The id of a join: 1 to 36 bytes of text.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JoinId(Arc<str>);

impl JoinId {
    /// Checks an id chosen by the caller.
    pub fn new(id: impl Into<Arc<str>>) -> Result<Self, Invalid> {
        let id = id.into();
        limits::name("join id", &id, EVENT_ID_MAX)?;
        Ok(Self(id))
    }

    /// Generates a UUID of version 7.
    #[must_use]
    pub fn random() -> Self {
        Self(uuid::Uuid::now_v7().to_string().into())
    }

    /// Creates an id from a stored row, without checks.
    #[must_use]
    pub fn from_row(id: impl Into<Arc<str>>) -> Self {
        Self(id.into())
    }
}

text!(JoinId);

impl fmt::Debug for JoinId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The status of a join.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum JoinStatus {
    /// A step has not ended yet, or no wait is set.
    Pending,
    /// All steps ended, and none failed, or failures are ignored.
    Completed,
    /// All steps ended, at least one failed, and failures are not ignored.
    Failed,
    /// The join was cancelled; no continuation is enqueued.
    Cancelled,
}

impl JoinStatus {
    /// All values, ordered by code.
    pub const ALL: [Self; 4] = [Self::Pending, Self::Completed, Self::Failed, Self::Cancelled];

    /// The code in tables.
    #[must_use]
    pub const fn code(self) -> i16 {
        self as i16
    }

    /// Reads a code. An unknown code counts as cancelled, so nothing happens to the join.
    #[must_use]
    pub fn from_code(code: i16) -> Self {
        Self::ALL.into_iter().find(|status| status.code() == code).unwrap_or(Self::Cancelled)
    }

    /// The name for people.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// The state of one message in one join.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum StepState {
    /// The message has not ended.
    Pending,
    /// The message was delivered.
    Completed,
    /// The message is dead or was cancelled.
    Failed,
}

impl StepState {
    /// All values, ordered by code.
    pub const ALL: [Self; 3] = [Self::Pending, Self::Completed, Self::Failed];

    /// The step state of a message with this status.
    #[must_use]
    pub const fn of(status: Status) -> Self {
        match status {
            Status::New | Status::Retry => Self::Pending,
            Status::Done => Self::Completed,
            Status::Dead => Self::Failed,
        }
    }

    /// The code in tables.
    #[must_use]
    pub const fn code(self) -> i16 {
        self as i16
    }

    /// Reads a code. An unknown code counts as failed.
    #[must_use]
    pub fn from_code(code: i16) -> Self {
        Self::ALL.into_iter().find(|state| state.code() == code).unwrap_or(Self::Failed)
    }

    /// The name for people.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Completed => "completed",
            Self::Failed => "failed",
        }
    }
}

/// The message that a join enqueues when it ends.
#[derive(Clone, PartialEq, Eq)]
pub struct Continuation {
    /// The topic of the message.
    pub topic: String,
    /// The payload of the message.
    pub payload: String,
}

/// Omits the payload: payloads never reach a log.
impl fmt::Debug for Continuation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Continuation").field("topic", &self.topic).finish_non_exhaustive()
    }
}

/// Whether failed steps fail their join.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FailedSteps {
    /// One failed step fails the join.
    #[default]
    Fail,
    /// Failed steps count as ended, like any other.
    Ignore,
}

/// What a join does when its last step has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinWait {
    /// Whether failed steps fail the join.
    pub failed_steps: FailedSteps,
    /// The message to enqueue when the join completes.
    pub on_complete: Option<Continuation>,
    /// The message to enqueue when the join fails.
    pub on_fail: Option<Continuation>,
    /// The id of the enqueued message, in both cases. A fixed id prevents a second continuation.
    pub message: EventId,
    /// The headers of the message, as JSON.
    pub headers: Option<String>,
}

impl JoinWait {
    /// The continuation of a join that ends with this status.
    const fn next(&self, status: JoinStatus) -> Option<&Continuation> {
        match status {
            JoinStatus::Completed => self.on_complete.as_ref(),
            _ => self.on_fail.as_ref(),
        }
    }
}

/// A join as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinRecord {
    /// The id of the join.
    pub id: JoinId,
    /// A key that groups related joins.
    pub grouping_key: Option<String>,
    /// The number of steps.
    pub expected: u32,
    /// The number of attached messages.
    pub attached: u32,
    /// The number of completed steps.
    pub completed: u32,
    /// The number of failed steps.
    pub failed: u32,
    /// The status of the join.
    pub status: JoinStatus,
    /// Free text of the caller.
    pub metadata: Option<String>,
    /// What happens at the end; `None` until a wait is set.
    pub wait: Option<JoinWait>,
    /// The continuation that was enqueued.
    pub fired: Option<EventId>,
    /// When it was started.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
}

impl JoinRecord {
    /// The final status of a join with a wait; `None` while a step has not ended, or without a wait.
    #[must_use]
    pub fn verdict(&self) -> Option<JoinStatus> {
        let wait = self.wait.as_ref()?;
        if self.completed + self.failed < self.expected {
            return None;
        }
        match wait.failed_steps {
            FailedSteps::Fail if self.failed > 0 => Some(JoinStatus::Failed),
            _ => Some(JoinStatus::Completed),
        }
    }

    /// Adds to the counts.
    pub const fn count(&mut self, counted: Counted) {
        self.attached += counted.attached;
        self.completed += counted.completed;
        self.failed += counted.failed;
    }

    /// Ends a pending join whose last step has ended and that has a wait. Returns whether it has ended now.
    pub fn end(&mut self) -> bool {
        let (JoinStatus::Pending, Some(status)) = (self.status, self.verdict()) else { return false };
        self.status = status;
        let wait = self.wait.as_ref().filter(|wait| wait.next(status).is_some());
        self.fired = wait.map(|wait| wait.message.clone());
        true
    }

    /// The continuation of a join that has ended, as a message for the queue.
    #[must_use]
    pub fn continuation(&self, now: Timestamp) -> Option<NewRow> {
        let (message, wait) = (self.fired.as_ref()?, self.wait.as_ref()?);
        let Continuation { topic, payload } = wait.next(self.status)?;
        let headers = Headers::from_stored(wait.headers.as_deref()).unwrap_or_default();
        let event = Event::text(topic.as_str(), payload.as_str()).headers(headers).occurred_at(now);
        Some(NewRow { event: event.build_from_row(message.clone()), placement: Placement::Queue })
    }
}

/// The amounts that one call adds to the counts of a join.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counted {
    /// Messages attached.
    pub attached: u32,
    /// Steps completed.
    pub completed: u32,
    /// Steps failed.
    pub failed: u32,
}

impl Counted {
    /// Counts messages that are attached in these states.
    #[must_use]
    pub fn attaching(states: impl IntoIterator<Item = StepState>) -> Self {
        let mut counted = Self::default();
        for state in states {
            counted.attached += 1;
            counted.add(state);
        }
        counted
    }

    /// Counts a step in this state; a pending step counts nothing.
    pub const fn add(&mut self, state: StepState) {
        match state {
            StepState::Pending => {}
            StepState::Completed => self.completed += 1,
            StepState::Failed => self.failed += 1,
        }
    }
}

/// One message in a join.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinMember {
    /// The id of the message.
    pub message: EventId,
    /// The state of the message in this join.
    pub state: StepState,
    /// When it was attached.
    pub attached_at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_read_back_and_unknown_ones_do_nothing() {
        for status in JoinStatus::ALL {
            assert_eq!(JoinStatus::from_code(status.code()), status);
        }
        for state in StepState::ALL {
            assert_eq!(StepState::from_code(state.code()), state);
        }
        assert_eq!(JoinStatus::from_code(9), JoinStatus::Cancelled);
        assert_eq!(StepState::from_code(-1), StepState::Failed);
    }

    #[test]
    fn ids_fit_their_column() {
        assert_eq!(JoinId::random().as_str().len(), 36);
        assert!(matches!(JoinId::new("x".repeat(37)), Err(Invalid::TooLong { max: 36, .. })));
        assert!(matches!(JoinId::new(""), Err(Invalid::Empty { .. })));
    }
}
