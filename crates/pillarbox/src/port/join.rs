//! Joins: messages of the queue whose last end enqueues another.

use jiff::Timestamp;

use super::Answer;
use crate::model::{EventId, JoinId, JoinMember, JoinRecord, JoinStatus, JoinWait, StepState};

/// What is to be done to a join.
#[derive(Debug, Clone)]
pub enum JoinAction {
    /// Makes it.
    Start {
        /// What it belongs to.
        grouping_key: Option<String>,
        /// How many steps it has; at least one.
        expected: u32,
        /// What its maker notes.
        metadata: Option<String>,
    },
    /// Makes messages of the queue its steps, all or none. One that has ended already counts at once.
    Attach {
        /// The messages that become steps.
        messages: Vec<EventId>,
    },
    /// Says that a step has ended, for messages that end outside of the queue.
    Report {
        /// The message whose step has ended.
        message: EventId,
        /// Completed or failed; a pending one changes nothing.
        state: StepState,
    },
    /// Says what happens at its end; where that has come, it happens at once.
    Wait(JoinWait),
    /// Takes it back: nothing will be enqueued. Put on record.
    Cancel {
        /// Who does it.
        by: String,
    },
}

/// A change of a join, one transaction.
#[derive(Debug, Clone)]
pub struct JoinChange {
    /// The join that is changed.
    pub join: JoinId,
    /// What happens to it.
    pub action: JoinAction,
    /// The time, set by tests; by default the database's.
    pub now: Option<Timestamp>,
}

/// What came of it. All but the first leave everything as it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JoinChanged {
    /// It was done.
    Changed,
    /// It had been done before.
    Unchanged,
    /// There is no such join.
    NoSuchJoin,
    /// The join has ended.
    Ended(JoinStatus),
    /// It has as many members as it has steps.
    Full {
        /// How many steps it has.
        expected: u32,
    },
    /// There is no such message in the queue.
    NoSuchMessage(EventId),
    /// The message is not attached to this join.
    NotAMember,
    /// Someone has said before what happens at its end.
    AlreadyWaiting,
}

/// A page of joins, newest first.
#[derive(Debug, Clone, Default)]
pub struct ListJoins {
    /// Only those with this grouping key.
    pub grouping_key: Option<String>,
    /// Only joins with this status.
    pub status: Option<JoinStatus>,
    /// The limit.
    pub limit: usize,
}

/// A join and its members, in the order of their ids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinShown {
    /// The join.
    pub join: JoinRecord,
    /// Its members, up to the limit asked for.
    pub members: Vec<JoinMember>,
}

/// Joins of one store.
pub trait Joins: Send + Sync {
    /// Changes one.
    fn change_join(&self, request: JoinChange) -> Answer<'_, JoinChanged>;

    /// One join with at most this many of its members.
    fn show_join(&self, join: JoinId, members: usize) -> Answer<'_, Option<JoinShown>>;

    /// A page of joins.
    fn list_joins(&self, request: ListJoins) -> Answer<'_, Vec<JoinRecord>>;
}
