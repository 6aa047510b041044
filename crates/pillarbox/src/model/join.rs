//! Joins: a number of messages that end in one.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;

use super::limits::{self, EVENT_ID_MAX};
use super::{EventId, Invalid, Status};

/// Longest grouping key of a join.
pub const GROUPING_KEY_MAX: usize = 255;
/// Most steps of a join.
pub const JOIN_STEPS_MAX: u32 = 1_000_000;

/// The id of a join: 1 to 36 bytes of text.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JoinId(Arc<str>);

impl JoinId {
    /// Takes an id of the caller's own making.
    pub fn new(id: impl Into<Arc<str>>) -> Result<Self, Invalid> {
        let id = id.into();
        limits::name("join id", &id, EVENT_ID_MAX)?;
        Ok(Self(id))
    }

    /// A UUID of version 7.
    #[must_use]
    pub fn random() -> Self {
        Self(uuid::Uuid::now_v7().to_string().into())
    }

    /// An id as it stands in a row.
    #[must_use]
    pub fn from_row(id: impl Into<Arc<str>>) -> Self {
        Self(id.into())
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for JoinId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for JoinId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Where a join stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum JoinStatus {
    /// Its end has not come, or nobody has said yet what is to happen then.
    Pending,
    /// All steps ended, well enough.
    Completed,
    /// All steps ended, and one that failed was too many.
    Failed,
    /// Taken back.
    Cancelled,
}

impl JoinStatus {
    /// All, in the order of their codes.
    pub const ALL: [Self; 4] = [Self::Pending, Self::Completed, Self::Failed, Self::Cancelled];

    /// The number in tables.
    #[must_use]
    pub const fn code(self) -> i16 {
        self as i16
    }

    /// The status of a number in a table; one that is unknown is as good as cancelled: nothing happens to it.
    #[must_use]
    pub fn from_code(code: i16) -> Self {
        Self::ALL.into_iter().find(|status| status.code() == code).unwrap_or(Self::Cancelled)
    }

    /// The word for people.
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

/// Where a step of a join stands: the state of one message in one join.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum StepState {
    /// It has not ended.
    Pending,
    /// Its message was delivered.
    Completed,
    /// Its message is dead.
    Failed,
}

impl StepState {
    /// All, in the order of their codes.
    pub const ALL: [Self; 3] = [Self::Pending, Self::Completed, Self::Failed];

    /// The step that a message of this status is.
    #[must_use]
    pub const fn of(status: Status) -> Self {
        match status {
            Status::New | Status::Retry => Self::Pending,
            Status::Done => Self::Completed,
            Status::Dead => Self::Failed,
        }
    }

    /// The number in tables.
    #[must_use]
    pub const fn code(self) -> i16 {
        self as i16
    }

    /// The state of a number in a table; one that is unknown has ended badly.
    #[must_use]
    pub fn from_code(code: i16) -> Self {
        Self::ALL.into_iter().find(|state| state.code() == code).unwrap_or(Self::Failed)
    }

    /// The word for people.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Completed => "completed",
            Self::Failed => "failed",
        }
    }
}

/// The message that a join ends in.
#[derive(Clone, PartialEq, Eq)]
pub struct Continuation {
    /// Its topic.
    pub topic: String,
    /// Its payload.
    pub payload: String,
}

/// Payloads never reach a log.
impl fmt::Debug for Continuation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Continuation").field("topic", &self.topic).finish_non_exhaustive()
    }
}

/// Whether failed steps fail their join.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FailedSteps {
    /// One is enough.
    #[default]
    Fail,
    /// They count as ended, like others.
    Ignore,
}

/// What happens when the last step has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinWait {
    /// What failed steps mean.
    pub failed_steps: FailedSteps,
    /// What is enqueued when it completes.
    pub on_complete: Option<Continuation>,
    /// What is enqueued when it fails.
    pub on_fail: Option<Continuation>,
    /// The id of the message that is enqueued, whichever of the two: with it none can be added twice.
    pub message: EventId,
    /// Its headers, as JSON.
    pub headers: Option<String>,
}

/// A join.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinRecord {
    /// Its id.
    pub id: JoinId,
    /// What it belongs to.
    pub grouping_key: Option<String>,
    /// How many steps it has.
    pub expected: u32,
    /// How many messages are attached.
    pub attached: u32,
    /// How many of them are done.
    pub completed: u32,
    /// How many of them are dead.
    pub failed: u32,
    /// Where it stands.
    pub status: JoinStatus,
    /// What its maker noted.
    pub metadata: Option<String>,
    /// What is to happen at its end, once someone has said so.
    pub wait: Option<JoinWait>,
    /// The message it ended in.
    pub fired: Option<EventId>,
    /// When it was started.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
}

impl JoinRecord {
    /// Where a join stands whose end someone waits for: `None` while a step is still to end.
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
}

/// What one call adds to the counts of a join.
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
    /// A step stands so now; a pending one counts nothing.
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
    /// Where it stands in this join.
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
