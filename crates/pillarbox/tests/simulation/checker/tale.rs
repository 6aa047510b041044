//! What the checker knows of each event at a place in the history.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::facts::Facts;
use crate::history::{Act, DeliveryNo, EventNo, Life, Member};
use crate::plan::Plan;
use crate::world::Told;
use pillarbox::model::GroupKey;

/// How an event ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Done,
    Dead,
    /// By an operator.
    Removed,
}

/// One event so far.
#[derive(Debug, Default)]
pub(super) struct Story {
    pub(super) began: usize,
    pub(super) committed: Option<usize>,
    pub(super) first_accept: Option<usize>,
    /// Accepts since it was written or replayed.
    pub(super) accepts: usize,
    /// Who was told that it was accepted, since it was written or replayed.
    pub(super) known_accepted: BTreeSet<Member>,
    /// The last attempt that each member sent.
    pub(super) attempts: BTreeMap<Member, u32>,
    /// Who put it off since the last answer to its delivery.
    pub(super) put_off_by: BTreeSet<Member>,
    /// Attempts that may be counted: its deliveries that failed or were cut off, at most.
    pub(super) charged: u32,
    /// An attempt was counted before its delivery, by this member, and has not been settled.
    pub(super) written: Option<(Member, Option<u32>)>,
    /// How many events had been accepted when the endpoint last failed under it.
    pub(super) accepted_before: Option<usize>,
    pub(super) cancelled: Option<Duration>,
    pub(super) refused: bool,
    pub(super) unroutable: bool,
    pub(super) end: Option<End>,
    pub(super) purged: bool,
    /// The store has forgotten it; its writer may write it again. Nothing is promised of it.
    pub(super) taken_back: bool,
    /// Dead, replayed or removed at some time: outside of the promise of order.
    pub(super) exempt: bool,
}

/// A delivery that its sender waits for.
#[derive(Debug)]
pub(super) struct Sending {
    pub(super) member: Member,
    pub(super) group: Option<GroupKey>,
}

/// The state of the judgement.
pub(super) struct Tale<'a> {
    pub(super) plan: &'a Plan,
    pub(super) told: &'a [Told],
    pub(super) stories: Vec<Story>,
    began: BTreeMap<usize, usize>,
    pub(super) sendings: BTreeMap<DeliveryNo, Sending>,
    pub(super) contents: BTreeMap<DeliveryNo, Vec<EventNo>>,
    /// The place in the history, and the time.
    pub(super) now: (usize, Duration),
    pub(super) jumped_forward: Option<Duration>,
    pub(super) jumped: bool,
    /// Numbers were given again at some time.
    pub(super) put_back: bool,
    /// Events whose sender was told that they were accepted.
    pub(super) accepted: usize,
    pub(super) facts: Facts,
    pub(super) wrongs: Vec<String>,
}

impl<'a> Tale<'a> {
    pub(super) fn new(plan: &'a Plan, told: &'a [Told]) -> Self {
        Self {
            plan,
            told,
            stories: told.iter().map(|_| Story::default()).collect(),
            began: BTreeMap::new(),
            sendings: BTreeMap::new(),
            contents: BTreeMap::new(),
            now: (0, Duration::ZERO),
            jumped_forward: None,
            jumped: false,
            put_back: false,
            accepted: 0,
            facts: Facts::default(),
            wrongs: Vec::new(),
        }
    }

    pub(super) fn wrong(&mut self, what: String) {
        let millis = self.now.1.as_secs_f64() * 1_000.0;
        self.wrongs.push(format!("at {millis:.3} ms: {what}"));
    }

    pub(super) fn story(&mut self, event: EventNo) -> &mut Story {
        &mut self.stories[event.0]
    }

    pub(super) fn began(&mut self, tx: usize) {
        self.began.insert(tx, self.now.0);
    }

    pub(super) fn committed(&mut self, tx: usize) {
        let began = self.began.get(&tx).copied().unwrap_or_default();
        let written =
            |(story, told): &(&mut Story, &Told)| story.committed.is_none() && told.txs.contains(&tx);
        for (story, _) in self.stories.iter_mut().zip(self.told).filter(written) {
            story.began = began;
            story.committed = Some(self.now.0);
        }
    }

    pub(super) fn acted(&mut self, event: EventNo, act: Act) {
        self.put_back |= act == Act::TakenBack;
        let now = self.now.1;
        let story = self.story(event);
        if act == Act::Cancelled {
            story.cancelled = Some(now);
        }
        story.exempt = true;
        match act {
            Act::TakenBack => story.taken_back = true,
            Act::Replayed => {
                story.end = None;
                story.accepts = 0;
                story.known_accepted.clear();
                story.attempts.clear();
                (story.charged, story.written) = (0, None);
                story.refused = false;
                story.unroutable = false;
            }
            // Once it is purged, the same id is a new event to the store.
            Act::Cancelled | Act::Removed if story.end == Some(End::Done) => story.purged = true,
            Act::Cancelled | Act::Removed => story.end = Some(End::Removed),
        }
    }

    pub(super) fn jumped(&mut self, seconds: i64) {
        self.jumped = true;
        if seconds > 0 {
            self.jumped_forward = Some(self.now.1);
        }
    }

    /// A lease granted before a jump of the store's clock may have ended without its holder's knowing.
    pub(super) fn leases_hold(&self) -> bool {
        self.jumped_forward.is_none_or(|at| self.now.1 > at + self.plan.tuning.lease)
    }

    pub(super) fn out_of(&self, life: Life) -> usize {
        self.sendings.values().filter(|sending| sending.member.life == life).count()
    }
}
