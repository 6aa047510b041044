//! Inspection and operation: what people and the command line ask of a store.

use std::time::Duration;

use jiff::Timestamp;

use super::Answer;
use crate::model::{Attempt, EventId, GroupKey, Lane, NodeId, Record, Seq, Status};

/// Which events. Everything that is set must match.
#[derive(Debug, Clone, Default)]
pub struct Select {
    /// These ids; empty: any.
    pub ids: Vec<EventId>,
    /// These statuses; empty: any.
    pub statuses: Vec<Status>,
    /// This event type.
    pub event_type: Option<String>,
    /// This aggregate type.
    pub aggregate_type: Option<String>,
    /// This group.
    pub group: Option<GroupKey>,
    /// Done or dead before this time.
    pub ended_before: Option<Timestamp>,
}

/// In which order a page comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PageOrder {
    /// By number, ascending.
    #[default]
    OldestFirst,
    /// By number, descending.
    NewestFirst,
}

/// Whether listed events come with their contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Contents {
    /// With payload and headers, whatever their size.
    #[default]
    Whole,
    /// Without: neither is loaded, and the event of a record is `Malformed`.
    LeftOut,
}

/// A page of events.
#[derive(Debug, Clone, Default)]
pub struct List {
    /// The events that are listed.
    pub select: Select,
    /// In which order.
    pub order: PageOrder,
    /// Only those after this one in that order.
    pub after: Option<Seq>,
    /// The id of that one: stores whose rows have no numbers go by it, and order by ids.
    pub after_id: Option<EventId>,
    /// The limit.
    pub limit: usize,
    /// Whether payloads and headers are loaded.
    pub contents: Contents,
}

/// One event with its failed attempts.
#[derive(Debug, Clone)]
pub struct Shown {
    /// The row.
    pub record: Record,
    /// Its failed attempts, oldest first.
    pub attempts: Vec<Attempt>,
}

/// Dead events back to new, attempts reset.
#[derive(Debug, Clone)]
pub struct Replay {
    /// Which; only dead ones are touched.
    pub select: Select,
    /// The limit.
    pub limit: usize,
    /// Who did it.
    pub by: String,
    /// The time, set by tests; by default the database's.
    pub now: Option<Timestamp>,
}

/// Dead events deleted.
#[derive(Debug, Clone)]
pub struct Discard {
    /// Which; only dead ones are touched.
    pub select: Select,
    /// The limit.
    pub limit: usize,
    /// Who did it.
    pub by: String,
    /// The time, set by tests; by default the database's.
    pub now: Option<Timestamp>,
}

/// Pending events taken back.
#[derive(Debug, Clone)]
pub struct Cancel {
    /// Which; only pending ones are touched.
    pub ids: Vec<EventId>,
    /// Who did it.
    pub by: String,
    /// The time, set by tests; by default the database's.
    pub now: Option<Timestamp>,
}

/// Which rows a purge may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PurgeStatus {
    /// Done ones, by when they were done.
    Done,
    /// Dead ones, by when they died.
    Dead,
    /// All, by when they were written: only where something else delivers (writer only).
    Any,
}

/// Deletes old rows, one batch.
#[derive(Debug, Clone)]
pub struct Purge {
    /// Whether done rows, dead rows or all of them are deleted.
    pub status: PurgeStatus,
    /// Older than this, by the database's clock.
    pub older_than: Duration,
    /// The limit.
    pub limit: usize,
    /// The time, set by tests; by default the database's.
    pub now: Option<Timestamp>,
}

/// Why a group is held back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum GroupState {
    /// Its head died.
    Blocked,
    /// An operator paused it.
    Paused,
}

impl GroupState {
    /// The word in tables and for people.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Blocked => "blocked",
            Self::Paused => "paused",
        }
    }

    /// The state a table names; what it does not know holds a group back as a dead head does.
    #[must_use]
    pub fn from_stored(name: &str) -> Self {
        if name == Self::Paused.as_str() { Self::Paused } else { Self::Blocked }
    }
}

/// A group that is held back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldGroup {
    /// The group that is held back.
    pub group: GroupKey,
    /// Whether it is blocked or paused.
    pub state: GroupState,
    /// The dead event it stands behind.
    pub event: Option<EventId>,
    /// The reason in words.
    pub reason: Option<String>,
    /// Who held it.
    pub by: String,
    /// Since when.
    pub since: Timestamp,
}

/// A page of the groups that are held back, in the order of their keys, compared by bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldGroups {
    /// Only those after this one; none: from the first.
    pub after: Option<GroupKey>,
    /// At most this many.
    pub limit: usize,
}

impl HeldGroups {
    /// Groups in a page that the engine reads, and in the answer to a heartbeat.
    pub const PAGE: usize = 1_000;

    /// The first page.
    #[must_use]
    pub const fn first() -> Self {
        Self { after: None, limit: Self::PAGE }
    }

    /// The page after one that was answered; none if that was the last.
    #[must_use]
    pub fn following(&self, page: &[HeldGroup]) -> Option<Self> {
        let last = page.last().filter(|_| page.len() >= self.limit)?;
        Some(Self { after: Some(last.group.clone()), limit: self.limit })
    }
}

/// What to do with a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupAction {
    /// Hold it back.
    Pause,
    /// Let a paused one go on.
    Resume,
    /// Bring the dead head of a blocked one back, in its place, and go on with it.
    Unblock,
    /// Leave the dead head of a blocked one dead, and go on with the next.
    Skip,
}

impl GroupAction {
    /// The word on record and for people.
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

/// A change of a group.
#[derive(Debug, Clone)]
pub struct GroupChange {
    /// The group that is changed.
    pub group: GroupKey,
    /// What happens to the group.
    pub action: GroupAction,
    /// The operator's reason, in words.
    pub reason: Option<String>,
    /// Who did it.
    pub by: String,
    /// The time, set by tests; by default the database's.
    pub now: Option<Timestamp>,
}

/// A node that is alive, or not yet evicted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeInfo {
    /// The id of the node.
    pub node: NodeId,
    /// Its label.
    pub label: String,
    /// Its lane.
    pub lane: Lane,
    /// How many slots it holds, lanes included.
    pub slots: usize,
    /// When it joined.
    pub joined_at: Timestamp,
    /// How long it still lives; `None` if it has expired.
    pub expires_in: Option<Duration>,
    /// What it last told of itself, as JSON: a relay tells the state of its sink.
    pub state: Option<String>,
}

/// A count of one event type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypeCount {
    /// The type.
    pub event_type: String,
    /// How many.
    pub count: u64,
}

/// The state of an outbox.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stats {
    /// How many rows by status code.
    pub by_status: [u64; 4],
    /// How many of the pending ones are delayed.
    pub delayed: u64,
    /// How many of the pending ones are in the queue.
    pub queued: u64,
    /// The age of the oldest pending row that is due.
    pub oldest: Option<Duration>,
    /// Dead events by type, most first.
    pub dead_by_type: Vec<TypeCount>,
    /// Written within the last minute.
    pub written_last_minute: u64,
    /// Done within the last minute, of rows that are kept.
    pub done_last_minute: u64,
    /// Slots that no node holds.
    pub free_slots: u64,
    /// Groups that are blocked.
    pub blocked_groups: u64,
    /// Groups that are paused.
    pub paused_groups: u64,
    /// Nodes that are alive.
    pub nodes: u64,
}

/// What a migration did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Migrated {
    /// The version before; zero if there were no tables.
    pub from: u32,
    /// The version now.
    pub to: u32,
}

/// Rights that a database user lacks, as the statements that grant them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Lacking {
    /// Without these nothing can be delivered.
    pub deliver: Vec<String>,
    /// Without these only purging fails.
    pub purge: Vec<String>,
}

/// An operator's action, as it was recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    /// When the action was taken.
    pub at: Timestamp,
    /// Who took it.
    pub by: String,
    /// What: `replay`, `discard`, `cancel`, `pause`, …
    pub action: String,
    /// On which event or group.
    pub target: String,
}

/// Inspection and operation. Every change is recorded in the audit table in the same transaction.
pub trait Admin: Send + Sync {
    /// Creates or upgrades the tables; harmless when they are there.
    fn migrate(&self) -> Answer<'_, Migrated>;

    /// The statements that make the tables, for people who run them by hand.
    fn schema_sql(&self) -> String;

    /// Checks that the tables are there and of this version.
    fn check(&self) -> Answer<'_, ()>;

    /// What the database user may not do, of what delivering needs. Empty too where the store can't tell.
    fn lacking(&self) -> Answer<'_, Lacking> {
        Box::pin(async { Ok(Lacking::default()) })
    }

    /// The state of the outbox.
    fn stats(&self) -> Answer<'_, Stats>;

    /// A page of events.
    fn list(&self, request: List) -> Answer<'_, Vec<Record>>;

    /// One event with its attempts.
    fn show(&self, id: EventId) -> Answer<'_, Option<Shown>>;

    /// How many events match.
    fn count(&self, select: Select) -> Answer<'_, u64>;

    /// Deletes pending events; the ids that were.
    fn cancel(&self, request: Cancel) -> Answer<'_, Vec<EventId>>;

    /// Brings dead events back, oldest first. One that blocks its group keeps its place and frees the group; any
    /// other gets a new number.
    fn replay(&self, request: Replay) -> Answer<'_, u64>;

    /// Deletes dead events; a group blocked by one goes on with the next.
    fn discard(&self, request: Discard) -> Answer<'_, u64>;

    /// Deletes old rows, one batch; how many.
    fn purge(&self, request: Purge) -> Answer<'_, u64>;

    /// The same, unless another process is at it: then it is none. Where transactions that write follow one another anyway, and on MongoDB,
    /// it is the same.
    fn purge_in_turn(&self, request: Purge) -> Answer<'_, u64> {
        self.purge(request)
    }

    /// A page of the groups that are held back.
    fn groups(&self, page: HeldGroups) -> Answer<'_, Vec<HeldGroup>>;

    /// Those of these groups that are held back, in the order of their keys.
    fn held(&self, groups: Vec<GroupKey>) -> Answer<'_, Vec<HeldGroup>>;

    /// Holds a group back or lets it go; false if there was nothing to change.
    fn change_group(&self, request: GroupChange) -> Answer<'_, bool>;

    /// The nodes.
    fn nodes(&self) -> Answer<'_, Vec<NodeInfo>>;

    /// The last actions of operators, newest first.
    fn audit(&self, limit: usize) -> Answer<'_, Vec<AuditEntry>>;
}
