//! Joins: fan-ins of queue messages that enqueue a continuation when all members have ended.

use jiff::Timestamp;

use super::StoreFuture;
use crate::model::{EventId, JoinId, JoinMember, JoinRecord, JoinStatus, JoinWait, StepState};

/// An operation on a join.
#[derive(Debug, Clone)]
pub enum JoinAction {
    /// Creates the join.
    Start {
        /// A key that groups related joins.
        grouping_key: Option<String>,
        /// The number of steps; at least one.
        expected: u32,
        /// Free text of the caller, stored with the join.
        metadata: Option<String>,
    },
    /// Attaches queue messages as steps, all or none. A message that has already ended counts at once.
    Attach {
        /// The messages that become steps.
        messages: Vec<EventId>,
    },
    /// Reports the end of a step, for messages that end outside of the queue.
    Report {
        /// The message whose step has ended.
        message: EventId,
        /// Completed or failed; pending changes nothing.
        state: StepState,
    },
    /// Sets what happens when the join ends. If all steps have ended already, it happens at once.
    Wait(JoinWait),
    /// Cancels the join: no continuation will be enqueued. Writes an audit entry.
    Cancel {
        /// The operator, for the audit entry.
        by: String,
    },
}

/// A change of a join, applied in one transaction.
#[derive(Debug, Clone)]
pub struct JoinChange {
    /// The join to change.
    pub join: JoinId,
    /// The operation to apply.
    pub action: JoinAction,
    /// The time, set by tests; by default the database's.
    pub now: Option<Timestamp>,
}

/// The result of a change. Only `Changed` means that the store was modified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JoinChanged {
    /// The change was applied.
    Changed,
    /// The join was in the requested state already.
    Unchanged,
    /// There is no such join.
    NoSuchJoin,
    /// The join has ended with this status.
    Ended(JoinStatus),
    /// The join has no room for these messages.
    Full {
        /// The number of steps of the join.
        expected: u32,
    },
    /// There is no such message in the queue.
    NoSuchMessage(EventId),
    /// The message is not attached to this join.
    NotAMember,
    /// A wait was set before.
    AlreadyWaiting,
}

/// Asks for a page of joins, newest first.
#[derive(Debug, Clone, Default)]
pub struct ListJoins {
    /// Only joins with this grouping key.
    pub grouping_key: Option<String>,
    /// Only joins with this status.
    pub status: Option<JoinStatus>,
    /// The maximum number of joins.
    pub limit: usize,
}

/// A join and its members, ordered by message id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinShown {
    /// The join.
    pub join: JoinRecord,
    /// Its members, up to the requested limit.
    pub members: Vec<JoinMember>,
}

/// The joins of one store.
pub trait Joins: Send + Sync {
    /// Applies a change to a join.
    fn change_join(&self, request: JoinChange) -> StoreFuture<'_, JoinChanged>;

    /// Reads one join with at most `members` of its members.
    fn show_join(&self, join: JoinId, members: usize) -> StoreFuture<'_, Option<JoinShown>>;

    /// Reads a page of joins.
    fn list_joins(&self, request: ListJoins) -> StoreFuture<'_, Vec<JoinRecord>>;
}
