//! The checker: judges what a run left behind.

use std::collections::{BTreeMap, BTreeSet};

use pillarbox::model::Status;

use crate::crew::{Evidence, Fault, Interruption};
use crate::fixtures::Commits;
use crate::journal::{Line, What};
use crate::plan::Mode;

/// What the engine logs when it learns that it was evicted, by a heartbeat or by a settle.
const EVICTED: [&str; 2] = ["node was evicted", "ownership lost"];
/// What it logs when it has registered, first or again.
const REGISTERED: &str = "node registered";

/// Why an incarnation may have delivered what another delivers again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Faults {
    /// None was made: everything arrives once.
    None,
    /// Processes were killed, stopped or starved.
    Some,
}

/// One delivery.
#[derive(Clone, Copy)]
struct Delivery<'a> {
    by: &'a str,
    /// Its line in the journal.
    at: usize,
}

#[derive(Default)]
struct Event<'a> {
    /// In order.
    deliveries: Vec<Delivery<'a>>,
    balked: usize,
    /// The line in the journal that confirms its commit; zero if the answer was lost.
    acked: usize,
}

/// A fault with its lines in the journal.
struct Interval<'a> {
    fault: Fault,
    label: &'a str,
    pending: &'a BTreeSet<String>,
    at: usize,
    /// Where the pending events had been read. What is delivered before may have been pending too.
    counted: usize,
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
        };
        concerned && self.at < again.at && (self.pending.contains(id) || again.at < self.counted)
    }

    /// Whether the fault may have cost the event an attempt.
    fn costs(&self, id: &str, event: &Event<'_>) -> bool {
        self.pending.contains(id) || event.deliveries.iter().any(|delivery| self.contains(*delivery))
    }
}

/// A registration that ended by an eviction although its process was not stopped: the machine was busy, or the database down.
/// Nobody read what was pending then, so whatever was delivered under it may come again.
struct LostTerm<'a> {
    label: &'a str,
    begins: usize,
    ends: usize,
}

impl LostTerm<'_> {
    fn contains(&self, delivery: Delivery<'_>) -> bool {
        delivery.by == self.label && self.begins < delivery.at && delivery.at < self.ends
    }
}

/// The faults of a run.
struct Faulted<'a> {
    intervals: Vec<Interval<'a>>,
    lost: Vec<LostTerm<'a>>,
}

impl<'a> Faulted<'a> {
    fn read(evidence: &'a Evidence) -> Self {
        let place = |what: What| evidence.lines.iter().position(|line| line.what == what);
        let interval = |(number, one): (usize, &'a Interruption)| Interval {
            fault: one.fault,
            label: &one.label,
            pending: &one.pending,
            at: place(What::Interrupted(number)).unwrap_or_default(),
            counted: place(What::Counted(number)).unwrap_or(usize::MAX),
        };
        let intervals: Vec<_> = evidence.interruptions.iter().enumerate().map(interval).collect();
        let lost = lost_terms(&evidence.lines, &intervals);
        Self { intervals, lost }
    }

    fn explain(&self, id: &str, first: Delivery<'_>, again: Delivery<'_>) -> bool {
        self.intervals.iter().any(|one| one.explains(id, first, again))
            || self.lost.iter().any(|term| term.contains(first) || term.contains(again))
    }

    /// How many attempts of an event the faults can have cost: one by each fault after which it was pending, one by each eviction
    /// without such a fault, and one more if it was written after a fault, before the slots of that process were taken over.
    fn attempts(&self, id: &str, event: &Event<'_>) -> usize {
        let costs = self.intervals.iter().filter(|one| one.costs(id, event)).count();
        let lost = self.lost.iter().filter(|term| event.acked < term.ends).count();
        let first = event.deliveries.first().map_or(0, |delivery| delivery.at);
        let late = self.intervals.iter().any(|one| one.counted < first);
        costs + lost + usize::from(late)
    }
}

fn is_eviction(line: &Line) -> bool {
    matches!(&line.what, What::Log { text } if EVICTED.iter().any(|told| text.contains(told)))
}

fn lost_terms<'a>(lines: &'a [Line], intervals: &[Interval<'_>]) -> Vec<LostTerm<'a>> {
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
                open.entry(label).or_insert(LostTerm { label, begins, ends: usize::MAX });
            }
        } else if matches!(&line.what, What::Log { text } if text.contains(REGISTERED)) {
            begun.insert(label, at);
            lost.extend(open.remove(label).map(|term| LostTerm { ends: at + REPORTED_LATE, ..term }));
        }
    }
    lost.extend(open.into_values());
    lost
}

/// Counts for people, if nothing is wrong; else all that is.
pub(crate) fn judge(
    evidence: &Evidence,
    mode: Mode,
    faults: Faults,
    commits: Commits,
) -> Result<String, Vec<String>> {
    let mut wrong = Vec::new();
    let mut events: BTreeMap<&str, Event<'_>> = BTreeMap::new();
    let mut firsts: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    let faulted = Faulted::read(evidence);
    let evicted: BTreeSet<&str> =
        evidence.lines.iter().filter(|line| is_eviction(line)).map(|line| line.by.as_str()).collect();
    let (mut rolled_back, mut taken_back) = (0, 0);
    // What was committed before a crash may be gone; after the last one nothing is.
    let crashes = || faulted.intervals.iter().filter(|one| one.fault == Fault::Crashed);
    let forgets = crashes().map(|one| one.counted).max();
    let forgets = forgets.filter(|_| commits == Commits::TakenBack).unwrap_or_default();
    // A process that was there before may have read it before, and deliver it from memory.
    let there_before: BTreeSet<&str> =
        evidence.lines[..forgets].iter().map(|line| line.by.as_str()).collect();
    for (at, line) in evidence.lines.iter().enumerate() {
        let by = line.by.as_str();
        match &line.what {
            What::Delivered { group, number, id } => {
                match evidence.parcels.get(id) {
                    Some(parcel) if *parcel == (*group, *number) => {}
                    None if at < forgets || there_before.contains(by) => {
                        taken_back += 1;
                        continue;
                    }
                    _ => wrong.push(format!("{by} delivered {id}, which was not committed")),
                }
                let event = events.entry(id).or_default();
                if event.deliveries.is_empty() {
                    firsts.entry(*group).or_default().push(*number);
                }
                event.deliveries.push(Delivery { by, at });
            }
            What::Balked { id } => events.entry(id).or_default().balked += 1,
            What::Acked { ids } => {
                for id in ids {
                    if evidence.parcels.contains_key(id) {
                        events.entry(id).or_default().acked = at;
                    } else if at >= forgets {
                        wrong.push(format!("the commit of {id} was confirmed to {by}, and is lost"));
                    }
                }
            }
            What::RolledBack { ids } => {
                rolled_back += 1;
                let there = ids.iter().filter(|id| evidence.parcels.contains_key(*id));
                wrong.extend(there.map(|id| format!("{by} rolled {id} back, and it is there")));
            }
            What::Log { .. }
            | What::Failed { .. }
            | What::Ready
            | What::Written
            | What::Left
            | What::Interrupted(_)
            | What::Counted(_) => {}
        }
    }
    if mode == Mode::Ordered {
        for (group, numbers) in &firsts {
            let at = numbers.iter().zip(1..).position(|(number, due)| *number != due);
            wrong.extend(at.map(|at| format!("group {group}: {} came as number {}", numbers[at], at + 1)));
        }
    }
    let mut again = 0;
    for (id, event) in &events {
        for pair in event.deliveries.windows(2) {
            again += 1;
            if faults == Faults::None || !faulted.explain(id, pair[0], pair[1]) {
                wrong.push(format!("{id} was delivered by {} and again by {}", pair[0].by, pair[1].by));
            }
        }
    }
    if faults == Faults::None && !evicted.is_empty() {
        wrong.push(format!("evicted without a fault: {evicted:?}"));
    }
    wrong.extend(judge_rows(evidence, &faulted, &events, faults));
    if wrong.is_empty() {
        let (committed, killed) = (evidence.parcels.len(), killed(evidence).len());
        let (evicted, unforeseen, crashes) = (evicted.len(), faulted.lost.len(), crashes().count());
        return Ok(format!(
            "{committed} events, {rolled_back} rollbacks, {killed} kills, {evicted} evicted, {unforeseen} of them without being stopped, \
             {crashes} crashes of the database, {again} delivered again, {taken_back} delivered and taken back"
        ));
    }
    Err(wrong)
}

fn killed(evidence: &Evidence) -> BTreeSet<&str> {
    let killed = evidence.interruptions.iter().filter(|one| one.fault == Fault::Killed);
    killed.map(|one| one.label.as_str()).collect()
}

/// The rows of the outbox: the same events as the business rows, all done, and nobody holds anything.
fn judge_rows(
    evidence: &Evidence,
    faulted: &Faulted<'_>,
    events: &BTreeMap<&str, Event<'_>>,
    faults: Faults,
) -> Vec<String> {
    let mut wrong = Vec::new();
    if evidence.records.len() != evidence.parcels.len() {
        wrong.push(format!("{} events for {} parcels", evidence.records.len(), evidence.parcels.len()));
    }
    for record in &evidence.records {
        let id = record.id.to_string();
        let Some(event) = events.get(id.as_str()).filter(|event| !event.deliveries.is_empty()) else {
            wrong.push(format!("{id} was never delivered"));
            continue;
        };
        if record.status != Status::Done || record.locked_by.is_some() {
            wrong.push(format!("{id} was delivered and is {:?}", record.status));
        }
        let attempts = record.attempts as usize;
        let fits = match faults {
            Faults::None => attempts == event.balked,
            Faults::Some => attempts <= event.balked + faulted.attempts(&id, event),
        };
        if !fits {
            wrong.push(format!("{id} failed {} times and has {attempts} attempts", event.balked));
        }
    }
    let killed = killed(evidence);
    let left = evidence.nodes.iter().filter(|node| !killed.contains(node.label.as_str()));
    wrong.extend(left.map(|node| format!("{} stopped in order and is still listed", node.label)));
    if evidence.held_groups > 0 {
        wrong.push(format!("{} groups are held back", evidence.held_groups));
    }
    wrong
}
