//! What happened in a run, in order: what the checker judges and people read.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use jiff::Timestamp;
use pillarbox::model::{SlotSet, Status};

use crate::faults::{Op, When};

/// An event, by its place among all that were written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct EventNo(pub(crate) usize);

/// A process: one start of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Life(pub(crate) usize);

/// A delivery to the sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct DeliveryNo(pub(crate) usize);

/// A process as a member: the n-th node of its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Member {
    pub(crate) life: Life,
    pub(crate) era: usize,
}

/// One event of a delivery, and how its row stood when it was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SentEvent {
    pub(crate) event: EventNo,
    pub(crate) attempt: u32,
    /// None: no such row.
    pub(crate) row: Option<Status>,
    /// Whether the sender holds the row's slot.
    pub(crate) ours: bool,
    /// Whether its group is blocked.
    pub(crate) blocked: bool,
}

/// What a sink answered for one event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Said {
    Accepted,
    Failed,
    Rejected,
    Unavailable,
    Throttled,
    NoRoute,
    Refused,
    Skipped,
}

/// What a settle did to one row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settled {
    pub(crate) event: EventNo,
    pub(crate) change: Settling,
    /// Whether the settler held the row's slot.
    pub(crate) ours: bool,
    /// Attempts afterwards; none where the row is gone.
    pub(crate) attempts: Option<u32>,
}

/// The kinds of outcomes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Settling {
    Done,
    Retry,
    Dead { error: String, blocks: bool },
    Delay,
    Attempt,
    Release,
    Waits,
}

/// How an operator ended an event, or the store forgot it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    /// The commit that wrote it is gone.
    TakenBack,
    Replayed,
    Cancelled,
    Removed,
}

/// One thing that happened.
#[derive(Debug, Clone)]
pub(crate) enum What {
    Began {
        tx: usize,
    },
    Wrote {
        tx: usize,
        event: EventNo,
    },
    Committed {
        tx: usize,
    },
    Undone {
        tx: usize,
    },
    Joined {
        member: Member,
    },
    Holds {
        member: Member,
        slots: SlotSet,
        suspect: SlotSet,
        give: SlotSet,
    },
    Called {
        life: Life,
        op: Op,
        fails: Option<When>,
    },
    Sent {
        delivery: DeliveryNo,
        member: Member,
        events: Vec<SentEvent>,
        clock: Timestamp,
    },
    Accepted {
        delivery: DeliveryNo,
        event: EventNo,
    },
    Answered {
        delivery: DeliveryNo,
        said: Vec<Said>,
    },
    /// The sender stopped waiting.
    Cut {
        delivery: DeliveryNo,
    },
    Settled {
        member: Member,
        rows: Vec<Settled>,
        stale: usize,
        held: bool,
    },
    Acted {
        event: EventNo,
        act: Act,
    },
    Ended {
        life: Life,
        how: &'static str,
    },
    Froze {
        life: Life,
    },
    Thawed {
        life: Life,
    },
    Jumped {
        seconds: i64,
    },
    Depth {
        life: Life,
        hot: usize,
        cold: usize,
    },
    Calmed,
    Note(String),
}

/// One entry.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) at: Duration,
    pub(crate) what: What,
}

/// All of a run, in order.
#[derive(Debug, Default)]
pub(crate) struct History {
    pub(crate) entries: Vec<Entry>,
}

impl History {
    /// The same for two runs that went the same way.
    pub(crate) fn hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for entry in &self.entries {
            entry.to_string().hash(&mut hasher);
        }
        hasher.finish()
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>10.3}  {}", self.at.as_secs_f64() * 1_000.0, self.what)
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Began { tx } => write!(f, "t{tx} begins"),
            Self::Wrote { tx, event } => write!(f, "t{tx} writes {event}"),
            Self::Committed { tx } => write!(f, "t{tx} commits"),
            Self::Undone { tx } => write!(f, "t{tx} is undone"),
            Self::Joined { member } => write!(f, "{member} joins"),
            Self::Holds { member, slots, suspect, give } => {
                let [slots, suspect, give] = [slots, suspect, give].map(SlotSet::ranges);
                write!(f, "{member} holds {slots:?}, suspect {suspect:?}, to give {give:?}")
            }
            Self::Called { life, op, fails: None } => write!(f, "{life} calls {}", op.name()),
            Self::Called { life, op, fails: Some(when) } => {
                write!(f, "{life} calls {}, fails {when:?} effect", op.name())
            }
            Self::Sent { delivery, member, events, .. } => {
                write!(f, "{member} sends {delivery}:")?;
                events.iter().try_for_each(|sent| write!(f, " {sent}"))
            }
            Self::Accepted { delivery, event } => write!(f, "{delivery}: {event} accepted"),
            Self::Answered { delivery, said } => write!(f, "{delivery}: answered {said:?}"),
            Self::Cut { delivery } => write!(f, "{delivery}: nobody waits for it any more"),
            Self::Settled { member, rows, stale, held } => {
                write!(f, "{member} settles (held {held}, stale {stale}):")?;
                rows.iter().try_for_each(|row| write!(f, " {row}"))
            }
            Self::Acted { event, act } => write!(f, "operator: {event} {act:?}"),
            Self::Ended { life, how } => write!(f, "{life} {how}"),
            Self::Froze { life } => write!(f, "{life} freezes"),
            Self::Thawed { life } => write!(f, "{life} thaws"),
            Self::Jumped { seconds } => write!(f, "the store's clock jumps by {seconds} s"),
            Self::Depth { life, hot, cold } => write!(f, "{life} has {hot} hot and {cold} cold rows"),
            Self::Calmed => write!(f, "faults stop"),
            Self::Note(text) => f.write_str(text),
        }
    }
}

impl fmt::Display for SentEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.event, self.attempt)?;
        match self.row {
            Some(status) if status.is_pending() => {}
            Some(status) => write!(f, " ({status})")?,
            None => write!(f, " (no row)")?,
        }
        write!(
            f,
            "{}{}",
            if self.ours { "" } else { " (not held)" },
            if self.blocked { " (blocked)" } else { "" }
        )
    }
}

impl fmt::Display for Settled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.event, self.change)?;
        if let Some(attempts) = self.attempts {
            write!(f, " (attempts {attempts})")?;
        }
        write!(f, "{}", if self.ours { "" } else { " (not held)" })
    }
}

impl fmt::Display for EventNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "e{}", self.0)
    }
}

impl fmt::Display for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p{}", self.0)
    }
}

impl fmt::Display for DeliveryNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "d{}", self.0)
    }
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.life, self.era)
    }
}
