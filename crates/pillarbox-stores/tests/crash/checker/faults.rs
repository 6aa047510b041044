//! The faults of a run, and what each of them explains.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::crew::{Evidence, Fault, Interruption};
use crate::journal::{Line, What};

/// What the engine logs when it learns that it was evicted, by a heartbeat or by a settle.
const EVICTED: [&str; 2] = ["node was evicted", "ownership lost"];
/// What it logs when it has registered, first or again.
const REGISTERED: &str = "node registered";

/// Deliveries that a worker process makes at once: the engine's default.
pub(super) const WORKERS: usize = 4;

/// One delivery.
#[derive(Debug, Clone, Copy)]
pub(super) struct Delivery<'a> {
    pub(super) by: &'a str,
    /// Its line in the journal.
    pub(super) at: usize,
}

#[derive(Debug, Default)]
pub(super) struct Event<'a> {
    /// In order.
    pub(super) deliveries: Vec<Delivery<'a>>,
    /// The lines of its refusals.
    pub(super) balked: Vec<usize>,
    /// The line in the journal that confirms its commit; zero if the answer was lost.
    pub(super) acked: usize,
}

/// A fault with its lines in the journal.
pub(super) struct Interval<'a> {
    pub(super) fault: Fault,
    label: &'a str,
    pending: &'a BTreeSet<String>,
    pub(super) at: usize,
    /// Where the pending events had been read. What is delivered before may have been pending too.
    pub(super) counted: usize,
}

impl Interval<'_> {
    fn contains(&self, delivery: Delivery<'_>) -> bool {
        self.at < delivery.at && delivery.at < self.counted
    }

    /// Whether an event that was delivered comes again because of this fault: it was not done right after it.
    fn explains(&self, id: &str, first: Delivery<'_>, again: Delivery<'_>) -> bool {
        let concerned = match self.fault {
            Fault::Killed => first.by == self.label,
            // A process that was stopped in the middle of a delivery ends it after others have made it.
            Fault::Stopped => first.by == self.label || again.by == self.label,
            Fault::Crashed => first.at < self.counted,
            Fault::Restarted => false,
        };
        concerned && self.at < again.at && (self.pending.contains(id) || again.at < self.counted)
    }

    /// Whether the event was pending when the fault happened.
    fn concerns(&self, id: &str, event: &Event<'_>) -> bool {
        self.pending.contains(id) || event.deliveries.iter().any(|delivery| self.contains(*delivery))
    }

    /// Whether answers of the database were lost, so that a process settles again what was settled.
    pub(super) fn loses_answers(&self) -> bool {
        matches!(self.fault, Fault::Crashed | Fault::Restarted)
    }
}

/// A registration that ended by an eviction although its process was not stopped: the machine was busy, or the database down.
pub(super) struct LostTerm<'a> {
    label: &'a str,
    /// The first delivery that can be unsettled when the lease ran out. A process that can't renew its lease can't settle
    /// either, and begins nothing after it.
    from: usize,
    /// The line that reports the eviction.
    pub(super) evicted: usize,
    ends: usize,
}

impl LostTerm<'_> {
    fn contains(&self, delivery: Delivery<'_>) -> bool {
        delivery.by == self.label && self.from <= delivery.at && delivery.at < self.ends
    }
}

/// The faults of a run.
pub(super) struct Faulted<'a> {
    pub(super) intervals: Vec<Interval<'a>>,
    pub(super) lost: Vec<LostTerm<'a>>,
}

impl<'a> Faulted<'a> {
    pub(super) fn read(evidence: &'a Evidence, lease: Duration) -> Self {
        let place = |what: What| evidence.lines.iter().position(|line| line.what == what);
        let interval = |(number, one): (usize, &'a Interruption)| Interval {
            fault: one.fault,
            label: &one.label,
            pending: &one.pending,
            at: place(What::Interrupted(number)).unwrap_or_default(),
            counted: place(What::Counted(number)).unwrap_or(usize::MAX),
        };
        let intervals: Vec<_> = evidence.interruptions.iter().enumerate().map(interval).collect();
        let lost = lost_terms(&evidence.lines, &intervals, lease);
        Self { intervals, lost }
    }

    /// The deliveries that no fault explains, out of pairs of successive deliveries of one event.
    pub(super) fn unexplained<'e>(
        &self,
        pairs: impl Iterator<Item = (&'e str, Delivery<'e>, Delivery<'e>)>,
    ) -> Vec<(&'e str, Delivery<'e>, Delivery<'e>)> {
        // What an evicted process still had in hand, and ended after another had delivered it.
        let mut in_hand = vec![WORKERS; self.lost.len()];
        let explained = |&(id, first, again): &(&str, Delivery<'_>, Delivery<'_>)| {
            let late = |(term, left): (&LostTerm<'_>, &mut usize)| {
                let ends = term.contains(again) && *left > 0;
                *left -= usize::from(ends);
                ends
            };
            self.intervals.iter().any(|one| one.explains(id, first, again))
                || self.lost.iter().any(|term| term.contains(first))
                || self.lost.iter().zip(&mut in_hand).any(late)
        };
        let mut explained = explained;
        pairs.filter(|pair| !explained(pair)).collect()
    }

    /// How many faults found the event pending, each of which can have ended a process between the record of the event's
    /// attempt and its delivery.
    pub(super) fn cuts(&self, id: &str, event: &Event<'_>) -> usize {
        let cut = self.intervals.iter().filter(|one| one.concerns(id, event)).count();
        cut + self.lost.iter().filter(|term| event.acked < term.ends).count()
    }
}

pub(super) fn is_eviction(line: &Line) -> bool {
    matches!(&line.what, What::Log { text } if EVICTED.iter().any(|told| text.contains(told)))
}

pub(super) fn is_registration(line: &Line) -> bool {
    matches!(&line.what, What::Log { text } if text.contains(REGISTERED))
}

fn lost_terms<'a>(lines: &'a [Line], intervals: &[Interval<'_>], lease: Duration) -> Vec<LostTerm<'a>> {
    // A delivery that began under the old registration may be reported shortly after the new one.
    const REPORTED_LATE: usize = 100;
    let mut begun: BTreeMap<&str, usize> = BTreeMap::new();
    let mut open: BTreeMap<&str, LostTerm<'_>> = BTreeMap::new();
    let mut lost = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let label = line.by.as_str();
        if is_eviction(line) {
            let begins = begun.get(label).copied().unwrap_or_default();
            let stopped = |one: &Interval<'_>| {
                one.fault == Fault::Stopped && one.label == label && begins < one.at && one.at < at
            };
            if !intervals.iter().any(stopped) {
                let from = unsettled_from(lines, label, begins, at, lease);
                open.entry(label).or_insert(LostTerm { label, from, evicted: at, ends: usize::MAX });
            }
        } else if is_registration(line) {
            begun.insert(label, at);
            lost.extend(open.remove(label).map(|term| LostTerm { ends: at + REPORTED_LATE, ..term }));
        }
    }
    lost.extend(open.into_values());
    lost
}

/// The first line within two leases of the term's last delivery: one lease without an answer of the database, and another
/// one for the settles that were under way and for a busy machine.
fn unsettled_from(lines: &[Line], label: &str, begins: usize, evicted: usize, lease: Duration) -> usize {
    let delivered = |line: &&Line| line.by == label && matches!(line.what, What::Delivered { .. });
    let Some(last) = lines[begins..evicted].iter().rfind(delivered) else { return evicted };
    let since = last.time.saturating_sub(2 * lease);
    let early = lines[begins..evicted].iter().position(|line| line.time >= since);
    begins + early.unwrap_or_default()
}
