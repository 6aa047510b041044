//! The steps of a sequence: calls of a store, with events and rows named in words that hold for every store.

use pillarbox::model::Status;
use pillarbox::port::{ClaimFrom, Counts, GroupAction, OnDone, Order, PageOrder, PurgeStatus, Wait};

use super::joins::JoinSpec;

/// A call at a time, in seconds.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) at: i64,
    pub(crate) call: Call,
}

#[derive(Debug, Clone)]
pub(crate) enum Call {
    Write(Vec<RowSpec>),
    FetchSlots {
        lanes: Vec<i16>,
        after: Option<String>,
        limits: Limits,
    },
    FetchGroup {
        group: String,
        lane: Option<i16>,
        from: Option<String>,
        limits: Limits,
    },
    FetchDue {
        limits: Limits,
    },
    Claim {
        from: ClaimFrom,
        owner: u8,
        lease_s: u64,
        limits: Limits,
    },
    Reap {
        older_than_s: u64,
    },
    Take {
        by: By,
        after: Option<String>,
        except: Vec<String>,
        rows: usize,
        each: usize,
        ungrouped: usize,
        ungrouped_order: Order,
    },
    Recover {
        by: By,
        older_than_s: u64,
        except: Vec<String>,
    },
    Settle {
        fence: FenceSpec,
        outcomes: Vec<OutcomeSpec>,
        on_done: OnDone,
        /// When an earlier call with these outcomes was made.
        repeats: Option<i64>,
    },
    Register {
        node: u8,
        lease_s: u64,
    },
    Heartbeat {
        node: u8,
        lease_s: u64,
        trusted: Vec<i16>,
        release: Release,
        groups: Seen,
        after: Option<String>,
        sweep: bool,
    },
    Leave {
        node: u8,
    },
    Promote {
        node: u8,
        lane: i16,
        order: Order,
        rows: usize,
    },
    Replay {
        select: SelectSpec,
        limit: usize,
    },
    Discard {
        select: SelectSpec,
        limit: usize,
    },
    Cancel {
        ids: Vec<String>,
    },
    Purge {
        status: PurgeStatus,
        older_than_s: u64,
    },
    ChangeGroup {
        group: String,
        action: GroupAction,
    },
    ChangeJoin {
        join: u8,
        change: JoinSpec,
    },
    List {
        select: SelectSpec,
        order: PageOrder,
        after: Option<String>,
        limit: usize,
    },
    Look,
}

impl Call {
    /// What kind of call it is.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Write(_) => "write",
            Self::FetchSlots { .. } => "fetch slots",
            Self::FetchGroup { .. } => "fetch group",
            Self::FetchDue { .. } => "fetch due",
            Self::Claim { .. } => "claim",
            Self::Reap { .. } => "reap",
            Self::Take { .. } => "take",
            Self::Recover { .. } => "recover",
            Self::Settle { .. } => "settle",
            Self::Register { .. } => "register",
            Self::Heartbeat { .. } => "heartbeat",
            Self::Leave { .. } => "leave",
            Self::Promote { .. } => "promote",
            Self::Replay { .. } => "replay",
            Self::Discard { .. } => "discard",
            Self::Cancel { .. } => "cancel",
            Self::Purge { .. } => "purge",
            Self::ChangeGroup { .. } => "change group",
            Self::ChangeJoin { change, .. } => change.name(),
            Self::List { .. } => "list",
            Self::Look => "look",
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) rows: usize,
    pub(crate) bytes: usize,
    pub(crate) skip_recent_s: u64,
}

#[derive(Debug, Clone)]
pub(crate) struct RowSpec {
    pub(crate) id: String,
    pub(crate) event_type: &'static str,
    pub(crate) group: Option<String>,
    pub(crate) aggregate: Option<u8>,
    pub(crate) message: Option<u8>,
    pub(crate) place: Placed,
    pub(crate) due: Option<Moment>,
    pub(crate) expires: Option<Moment>,
    pub(crate) payload: usize,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Placed {
    Slot,
    Lane(i16),
    Queue,
}

/// At a time, or so long after the call; in seconds.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Moment {
    At(i64),
    In(u64),
}

/// A node, by its number or as the one that was last told that it leads.
#[derive(Debug, Clone, Copy)]
pub(crate) enum By {
    Node(u8),
    Leader,
}

#[derive(Debug, Clone)]
pub(crate) enum FenceSpec {
    Node(By),
    Owner(u8),
    Open,
}

/// An outcome for a row of this event as it was known: the newest number and token, or some further back.
#[derive(Debug, Clone)]
pub(crate) struct OutcomeSpec {
    pub(crate) id: String,
    pub(crate) back: usize,
    /// Named as that of another event, which had the number before.
    pub(crate) another: Option<String>,
    pub(crate) change: ChangeSpec,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum ChangeSpec {
    Done,
    Retry { delay_s: u64, counts: Counts, wait: Wait },
    Dead { counts: Counts, blocks: bool },
    Delay,
    Attempt { attempts: u32 },
    Waits,
    Release { attempts: u32 },
    Extend { lease_s: u64 },
}

/// Which slots a heartbeat gives back.
#[derive(Debug, Clone)]
pub(crate) enum Release {
    /// The slots that are named.
    Named(Vec<i16>),
    /// What the node was last told to give.
    AsTold,
}

/// Which state of groups a node says it knows.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Seen {
    Nothing,
    Latest,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct SelectSpec {
    pub(crate) ids: Vec<String>,
    pub(crate) statuses: Vec<Status>,
    pub(crate) event_type: Option<&'static str>,
    pub(crate) aggregate_type: Option<&'static str>,
    pub(crate) group: Option<String>,
    pub(crate) ended_before: Option<i64>,
}
