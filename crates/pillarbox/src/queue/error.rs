//! What can go wrong at the queue door.

use crate::events::WriteError;
use crate::model::{Invalid, JoinId, JoinStatus};
use crate::port::StoreError;

use super::MessageId;

/// Why the queue did not do it.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    /// A field is wrong.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The claim is another's by now, or ended: nothing was changed.
    #[error("work item {0} is not held any more")]
    NotHeld(String),
    /// The database said no.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<WriteError> for QueueError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Invalid(invalid) => Self::Invalid(invalid),
            WriteError::Store(error) => Self::Store(error),
            // The queue has no hooks and opens no scope.
            other => Self::Invalid(Invalid::Malformed { field: "message", reason: other.to_string() }),
        }
    }
}

/// Why a join did not change.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// A field is wrong.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// There is no such join.
    #[error("there is no join {0}")]
    NoSuchJoin(JoinId),
    /// It has ended.
    #[error("join {join} has ended: it is {}", .status.as_str())]
    Ended {
        /// The join that has ended.
        join: JoinId,
        /// How it ended.
        status: JoinStatus,
    },
    /// It has as many messages as steps.
    #[error("join {join} expects {expected} steps, and no more can be attached")]
    Full {
        /// The join that is full.
        join: JoinId,
        /// How many steps it has.
        expected: u32,
    },
    /// There is no such message in the queue.
    #[error("there is no message {0} in the queue")]
    NoSuchMessage(MessageId),
    /// The message is not a step of the join.
    #[error("message {message} is not attached to join {join}")]
    NotAMember {
        /// The join.
        join: JoinId,
        /// The message.
        message: MessageId,
    },
    /// Someone waits for it already.
    #[error("join {0} is waited for already, and can be waited for only once")]
    AlreadyWaiting(JoinId),
    /// The database said no, or can't have joins.
    #[error(transparent)]
    Store(#[from] StoreError),
}
