//! Errors of the queue API.

use crate::events::WriteError;
use crate::model::{Invalid, JoinId, JoinStatus};
use crate::port::StoreError;

use super::MessageId;

/// Reasons why a queue operation failed.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    /// A field is missing, too long, malformed or out of range.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The claim has ended or belongs to another owner; nothing was changed.
    #[error("work item {0} is no longer held")]
    NotHeld(String),
    /// The store returned an error.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<WriteError> for QueueError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Invalid(invalid) => Self::Invalid(invalid),
            WriteError::Store(error) => Self::Store(error),
            // Hook and NoTransaction cannot occur: the queue has no hooks and opens no scope.
            other => Self::Invalid(Invalid::Malformed { field: "message", reason: other.to_string() }),
        }
    }
}

/// Reasons why a join operation failed.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// A field is missing, too long, malformed or out of range.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// No join has this id.
    #[error("there is no join {0}")]
    NoSuchJoin(JoinId),
    /// The join has ended and cannot be changed.
    #[error("join {join} has ended: it is {}", .status.as_str())]
    Ended {
        /// The join that has ended.
        join: JoinId,
        /// Its final status.
        status: JoinStatus,
    },
    /// The expected number of messages is attached already.
    #[error("join {join} expects {expected} steps, and no more can be attached")]
    Full {
        /// The join that is full.
        join: JoinId,
        /// Its number of steps.
        expected: u32,
    },
    /// The queue has no message with this id.
    #[error("there is no message {0} in the queue")]
    NoSuchMessage(MessageId),
    /// The message is not a step of the join.
    #[error("message {message} is not attached to join {join}")]
    NotAMember {
        /// The join of the request.
        join: JoinId,
        /// The message that is not attached.
        message: MessageId,
    },
    /// The continuations of the join are set already.
    #[error("join {0} is waited for already, and can be waited for only once")]
    AlreadyWaiting(JoinId),
    /// The store returned an error, or does not support joins.
    #[error(transparent)]
    Store(#[from] StoreError),
}
