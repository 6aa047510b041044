//! The operators' port: inspection and operation by people, the command line and the admin API.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Serialize, Serializer};

use super::StoreFuture;
use crate::model::{Attempt, EventId, GroupKey, Lane, NodeId, Record, Seq, Slot, Status};
use crate::rules::SlotRecord;

/// A selection of events. An event must match every field that is set.
#[derive(Debug, Clone, Default)]
pub struct Select {
    /// Only these ids; empty means any.
    pub ids: Vec<EventId>,
    /// Only these statuses; empty means any.
    pub statuses: Vec<Status>,
    /// Only this event type.
    pub event_type: Option<String>,
    /// Only this aggregate type.
    pub aggregate_type: Option<String>,
    /// Only this group.
    pub group: Option<GroupKey>,
    /// Only events that became done or dead before this time.
    pub ended_before: Option<Timestamp>,
}

/// The order of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PageOrder {
    /// Ascending by sequence number.
    #[default]
    OldestFirst,
    /// Descending by sequence number.
    NewestFirst,
}

impl PageOrder {
    /// Chooses by the order.
    #[must_use]
    pub fn either<T>(self, oldest_first: T, newest_first: T) -> T {
        match self {
            Self::OldestFirst => oldest_first,
            Self::NewestFirst => newest_first,
        }
    }
}

/// Whether listed events include their contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Contents {
    /// Includes payload and headers, whatever their size.
    #[default]
    Whole,
    /// Loads neither payload nor headers; the event of a record is then `Malformed`.
    LeftOut,
}

/// A page of events.
#[derive(Debug, Clone, Default)]
pub struct List {
    /// The events to list.
    pub select: Select,
    /// The order of the page.
    pub order: PageOrder,
    /// Only events after this number, in that order.
    pub after: Option<Seq>,
    /// The id of that event. Item stores, whose rows have no numbers, order and page by id.
    pub after_id: Option<EventId>,
    /// The maximum number of events.
    pub limit: usize,
    /// Whether payloads and headers are loaded.
    pub contents: Contents,
}

impl List {
    /// The number after which the page begins, in its order.
    #[must_use]
    pub fn start(&self) -> i64 {
        self.after.map_or(self.order.either(i64::MIN, i64::MAX), |seq| seq.0)
    }
}

/// One event with its failed attempts.
#[derive(Debug, Clone)]
pub struct Shown {
    /// The stored row.
    pub record: Record,
    /// Its failed attempts, oldest first.
    pub attempts: Vec<Attempt>,
}

/// Makes dead events new again, with no attempts counted.
#[derive(Debug, Clone)]
pub struct Replay {
    /// The events to select; only dead ones change.
    pub select: Select,
    /// The maximum number of events.
    pub limit: usize,
    /// The actor, for the audit entry.
    pub by: String,
    /// The time, set by tests; by default the database's.
    pub now: Option<Timestamp>,
}

/// Deletes dead events.
#[derive(Debug, Clone)]
pub struct Discard {
    /// The events to select; only dead ones change.
    pub select: Select,
    /// The maximum number of events.
    pub limit: usize,
    /// The actor, for the audit entry.
    pub by: String,
    /// The time, set by tests; by default the database's.
    pub now: Option<Timestamp>,
}

/// Deletes pending events before they are delivered.
#[derive(Debug, Clone)]
pub struct Cancel {
    /// The events to cancel; only pending ones are deleted.
    pub ids: Vec<EventId>,
    /// The actor, for the audit entry.
    pub by: String,
    /// The time, set by tests; by default the database's.
    pub now: Option<Timestamp>,
}

/// The rows that a purge may delete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PurgeStatus {
    /// Done rows, by the time they became done.
    Done,
    /// Dead rows, by the time they became dead.
    Dead,
    /// All rows, by the time of writing. Only for tables from which another program delivers (writer only).
    Any,
}

/// Deletes one batch of old rows.
#[derive(Debug, Clone)]
pub struct Purge {
    /// The rows to delete, by status.
    pub status: PurgeStatus,
    /// The minimum age, by the database's clock.
    pub older_than: Duration,
    /// The maximum number of events.
    pub limit: usize,
    /// The time, set by tests; by default the database's.
    pub now: Option<Timestamp>,
}

/// Why a group is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum GroupState {
    /// Its first event is dead.
    Blocked,
    /// An operator paused it.
    Paused,
}

impl GroupState {
    /// The name in tables and for people.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Blocked => "blocked",
            Self::Paused => "paused",
        }
    }

    /// Reads a stored name. An unknown name counts as blocked, so the group stays held.
    #[must_use]
    pub fn from_stored(name: &str) -> Self {
        if name == Self::Paused.as_str() { Self::Paused } else { Self::Blocked }
    }
}

/// A group that is blocked or paused; nothing of it is delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldGroup {
    /// The key of the group.
    pub group: GroupKey,
    /// Whether it is blocked or paused.
    pub state: GroupState,
    /// The dead event that blocks it, or will once a paused group is resumed.
    pub event: Option<EventId>,
    /// The reason, for people.
    pub reason: Option<String>,
    /// Who blocked or paused it.
    pub by: String,
    /// When it was blocked or paused.
    pub since: Timestamp,
}

/// Asks for a page of held groups, ordered by key, byte by byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldGroups {
    /// Only groups after this one; `None` starts at the first.
    pub after: Option<GroupKey>,
    /// The maximum number of groups.
    pub limit: usize,
}

impl HeldGroups {
    /// The page size of the engine's reads and of the answer to a heartbeat.
    pub const PAGE: usize = 1_000;

    /// The first page.
    #[must_use]
    pub const fn first() -> Self {
        Self { after: None, limit: Self::PAGE }
    }

    /// The page that follows this answer; `None` if it was the last.
    #[must_use]
    pub fn following(&self, page: &[HeldGroup]) -> Option<Self> {
        let last = page.last().filter(|_| page.len() >= self.limit)?;
        Some(Self { after: Some(last.group.clone()), limit: self.limit })
    }
}

/// An operator's action on a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupAction {
    /// Stops delivery of the group.
    Pause,
    /// Resumes a paused group; if its first event is dead, it becomes blocked.
    Resume,
    /// Makes the dead first event of a blocked group pending again, in its place, and continues with it.
    Unblock,
    /// Leaves the dead first event of a blocked group dead, and continues with the next.
    Skip,
}

impl GroupAction {
    /// The name in audit entries and for people.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Unblock => "unblock",
            Self::Skip => "skip",
        }
    }
}

/// A change of a group's state by an operator.
#[derive(Debug, Clone)]
pub struct GroupChange {
    /// The group to change.
    pub group: GroupKey,
    /// The action to apply.
    pub action: GroupAction,
    /// The operator's reason, for people.
    pub reason: Option<String>,
    /// The actor, for the audit entry.
    pub by: String,
    /// The time, set by tests; by default the database's.
    pub now: Option<Timestamp>,
}

/// A registered node; its lease may have expired if no other node has evicted it yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeInfo {
    /// The id of the node.
    pub node: NodeId,
    /// Its label, such as host and process.
    pub label: String,
    /// The number of its lane.
    pub lane: Lane,
    /// The number of slots it holds, including lanes.
    pub slots: usize,
    /// When it was registered.
    pub joined_at: Timestamp,
    /// The time until its lease expires; `None` if it has expired.
    pub expires_in: Option<Duration>,
    /// When its lease expires or has expired.
    pub expires_at: Timestamp,
    /// The state that it last published, as JSON; a relay publishes the state of its sink.
    pub state: Option<String>,
}

/// Asks for the open transactions of other sessions that have written to the table or locked rows of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenTransactions {
    /// The event whose row they may have locked.
    pub event: EventId,
    /// The maximum number of transactions.
    pub limit: usize,
}

/// A transaction of another session that has not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransactionInfo {
    /// The session, by the name that ends it: on PostgreSQL its pid.
    pub session: String,
    /// The name that its program has given it; `None` if it has none or the database user may not see it.
    pub application: Option<String>,
    /// When it began; `None` if the database user may not see it.
    pub began_at: Option<Timestamp>,
    /// Whether it has locked the row of the event.
    pub locks_row: bool,
}

/// The number of events of one type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TypeCount {
    /// The event type.
    #[serde(rename = "type")]
    pub event_type: String,
    /// The number of events.
    pub count: u64,
}

/// Numbers of rows by status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct StatusCounts {
    /// Rows that were not attempted yet.
    pub new: u64,
    /// Rows that failed and wait for the next attempt.
    pub retry: u64,
    /// Rows that are done and not yet purged.
    pub done: u64,
    /// Rows that were given up.
    pub dead: u64,
}

impl StatusCounts {
    /// The number of rows that are still to be delivered: new and retry.
    #[must_use]
    pub const fn pending(&self) -> u64 {
        self.new + self.retry
    }
}

/// Counts and ages of an outbox and of the queue in the same table.
///
/// A snapshot that several statements read: while rows change, its numbers may differ by these rows.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Stats {
    /// Events by status.
    pub events: StatusCounts,
    /// Messages of the queue by status.
    pub queue: StatusCounts,
    /// The number of pending events that are delayed.
    pub delayed: u64,
    /// The age of the oldest pending row that is due; in JSON `oldest_ms`.
    #[serde(rename = "oldest_ms", serialize_with = "as_milliseconds")]
    pub oldest: Option<Duration>,
    /// Dead events and messages by type, most frequent first.
    pub dead_by_type: Vec<TypeCount>,
    /// Rows written within the last minute.
    pub written_last_minute: u64,
    /// Rows that became done within the last minute; deleted rows do not count.
    pub done_last_minute: u64,
    /// The number of slots that no node holds.
    pub free_slots: u64,
    /// The number of blocked groups.
    pub blocked_groups: u64,
    /// The number of paused groups.
    pub paused_groups: u64,
    /// The number of nodes with a live lease.
    pub nodes: u64,
}

impl Stats {
    /// The number of rows, events and messages together, indexed by status code.
    #[must_use]
    pub const fn by_status(&self) -> [u64; 4] {
        let Self { events, queue, .. } = self;
        [
            events.new + queue.new,
            events.done + queue.done,
            events.retry + queue.retry,
            events.dead + queue.dead,
        ]
    }
}

#[expect(clippy::ref_option, reason = "serde passes the field by reference")]
fn as_milliseconds<S: Serializer>(age: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    age.map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX)).serialize(serializer)
}

/// The result of a migration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Migrated {
    /// The schema version before; zero if there were no tables.
    pub from: u32,
    /// The schema version now.
    pub to: u32,
}

/// Privileges that the database user lacks, as statements that grant them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Lacking {
    /// Needed for delivery.
    pub deliver: Vec<String>,
    /// Needed only for purging.
    pub purge: Vec<String>,
    /// Needed only for what operators change, besides the others.
    pub operate: Vec<String>,
}

/// One audit entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    /// When the action was taken.
    pub at: Timestamp,
    /// The actor.
    pub by: String,
    /// The action: `replay`, `discard`, `cancel`, `pause`, …
    pub action: String,
    /// The event, group or join that it changed.
    pub target: String,
}

/// Inspection and operation. Replays, discards, cancellations and group changes write audit entries, in the
/// same transaction if the store has transactions.
pub trait Admin: Send + Sync {
    /// Creates or upgrades the tables. Safe to repeat.
    fn migrate(&self) -> StoreFuture<'_, Migrated>;

    /// The statements that create the tables, to be run by hand.
    fn schema_sql(&self) -> String;

    /// Checks that the tables exist and have this version.
    fn check(&self) -> StoreFuture<'_, ()>;

    /// The privileges for delivery, purging and operators that the database user lacks. Also empty if the store cannot
    /// tell.
    fn lacking(&self) -> StoreFuture<'_, Lacking> {
        Box::pin(async { Ok(Lacking::default()) })
    }

    /// Counts and ages of the outbox.
    fn stats(&self) -> StoreFuture<'_, Stats>;

    /// A page of events.
    fn list(&self, request: List) -> StoreFuture<'_, Vec<Record>>;

    /// Reads one event with its failed attempts.
    fn show(&self, id: EventId) -> StoreFuture<'_, Option<Shown>>;

    /// Counts the matching events.
    fn count(&self, select: Select) -> StoreFuture<'_, u64>;

    /// Deletes pending events and returns their ids.
    fn cancel(&self, request: Cancel) -> StoreFuture<'_, Vec<EventId>>;

    /// Makes dead events pending again, oldest first, and returns how many. An event that blocks its group
    /// keeps its place and frees the group; any other gets a new number.
    fn replay(&self, request: Replay) -> StoreFuture<'_, u64>;

    /// Deletes dead events and returns how many. A group blocked by one of them continues with its next event.
    fn discard(&self, request: Discard) -> StoreFuture<'_, u64>;

    /// Deletes one batch of old rows and returns how many.
    fn purge(&self, request: Purge) -> StoreFuture<'_, u64>;

    /// Like `purge`, but returns zero while another process is purging. Stores that serialise writing
    /// transactions anyway do not check.
    fn purge_in_turn(&self, request: Purge) -> StoreFuture<'_, u64> {
        self.purge(request)
    }

    /// Reads a page of held groups.
    fn groups(&self, page: HeldGroups) -> StoreFuture<'_, Vec<HeldGroup>>;

    /// The held groups among these, ordered by key.
    fn held(&self, groups: Vec<GroupKey>) -> StoreFuture<'_, Vec<HeldGroup>>;

    /// Applies an action to a group. Returns false if there was nothing to change.
    fn change_group(&self, request: GroupChange) -> StoreFuture<'_, bool>;

    /// The registered nodes.
    fn nodes(&self) -> StoreFuture<'_, Vec<NodeInfo>>;

    /// A slot or lane with its holder and its quarantine. `None` if the store cannot tell.
    fn slot(&self, _slot: Slot) -> StoreFuture<'_, Option<SlotRecord>> {
        Box::pin(async { Ok(None) })
    }

    /// The open transactions of other sessions, those that have locked the row first, then the oldest. `None` if
    /// the store cannot tell.
    fn open_transactions(&self, _request: OpenTransactions) -> StoreFuture<'_, Option<Vec<TransactionInfo>>> {
        Box::pin(async { Ok(None) })
    }

    /// The latest audit entries, newest first.
    fn audit(&self, limit: usize) -> StoreFuture<'_, Vec<AuditEntry>>;
}
