//! The checker: judges what a run left behind.

use std::collections::{BTreeMap, BTreeSet};

use pillarbox::model::Status;

use crate::crew::Evidence;
use crate::grounds::Commits;
use crate::journal::{Line, What};
use crate::plan::Mode;

/// What the engine logs when it learns that it was evicted, by a heartbeat or by a settle.
const EVICTED: [&str; 2] = ["node was evicted", "ownership lost"];

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
    /// Grows with every crash of the database, and with its recovery.
    era: usize,
    /// Its place in the journal.
    at: usize,
}

#[derive(Default)]
struct Event<'a> {
    /// In order.
    deliveries: Vec<Delivery<'a>>,
    balked: usize,
}

/// Which processes were ended, and how.
struct Ends<'a> {
    evidence: &'a Evidence,
    /// Those that learned that others had taken their work over.
    evicted: BTreeSet<&'a str>,
    /// Where in the journal processes were killed.
    killed: BTreeMap<&'a str, usize>,
    /// Where it was counted what they had left.
    counted: BTreeMap<&'a str, usize>,
}

impl<'a> Ends<'a> {
    fn read(evidence: &'a Evidence) -> Self {
        let is_eviction = |line: &&Line| matches!(&line.what, What::Log { text } if EVICTED.iter().any(|told| text.contains(told)));
        let by = |line: &'a Line| line.by.as_str();
        let places = |what: &What| {
            let lines = evidence.lines.iter().enumerate().filter(|(_, line)| line.what == *what);
            lines.map(|(at, line)| (by(line), at)).collect()
        };
        Self {
            evidence,
            evicted: evidence.lines.iter().filter(is_eviction).map(by).collect(),
            killed: places(&What::Killing),
            counted: places(&What::Counted),
        }
    }

    /// Whether an event that was delivered comes again for a reason: a crash took its done mark back, a node stood still, or it was in flight when its process was killed. What was done by then stays done, and what comes before that was counted may be either.
    fn explain(&self, id: &str, first: Delivery<'_>, again: Delivery<'_>) -> bool {
        let in_flight = || {
            let pending = self.evidence.killed.get(first.by)?;
            let counted = self.counted.get(first.by).copied().unwrap_or(usize::MAX);
            Some(pending.contains(id) || again.at < counted)
        };
        first.era < again.era
            || self.evicted.contains(first.by)
            // One that stood still in the middle of a delivery ends it after others have made it.
            || self.evicted.contains(again.by)
            || in_flight() == Some(true)
    }

    /// How many attempts of an event can have been counted by ends of processes: one by each kill at which it was pending, and one
    /// more if it was written after a kill, while the slots of that process were still to be taken over. What is delivered between
    /// a kill and the look at what it left was pending too.
    fn attempts(&self, id: &str, event: &Event<'_>, evictions: usize) -> usize {
        let was_pending = |(label, pending): &(&String, &BTreeSet<String>)| {
            let place = |of: &BTreeMap<&str, usize>| of.get(label.as_str()).copied().unwrap_or(usize::MAX);
            let (killed, counted) = (place(&self.killed), place(&self.counted));
            let between = |delivery: &Delivery<'_>| killed < delivery.at && delivery.at < counted;
            pending.contains(id) || event.deliveries.iter().any(between)
        };
        let pending = self.evidence.killed.iter().filter(was_pending).count();
        let first = event.deliveries.first().map_or(0, |delivery| delivery.at);
        let late = self.counted.values().any(|counted| *counted < first);
        evictions + pending + usize::from(late)
    }
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
    let ends = Ends::read(evidence);
    let evicted = &ends.evicted;
    let (mut rolled_back, mut evictions, mut crashes, mut era, mut taken_back) = (0, 0, 0, 0, 0);
    // What was committed before a crash may be gone; after the last one nothing is.
    let forgets = evidence.lines.iter().rposition(|line| line.what == What::Recovered);
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
                event.deliveries.push(Delivery { by, era, at });
            }
            What::Balked { id } => events.entry(id).or_default().balked += 1,
            What::Acked { .. } if at < forgets => {}
            What::Acked { ids } => wrong.extend(
                ids.iter()
                    .filter(|id| !evidence.parcels.contains_key(*id))
                    .map(|id| format!("the commit of {id} was confirmed to {by}, and is lost")),
            ),
            What::RolledBack { ids } => {
                rolled_back += 1;
                let there = ids.iter().filter(|id| evidence.parcels.contains_key(*id));
                wrong.extend(there.map(|id| format!("{by} rolled {id} back, and it is there")));
            }
            What::Log { text } if EVICTED.iter().any(|told| text.contains(told)) => evictions += 1,
            What::Crashed => {
                crashes += 1;
                era += 1;
            }
            // Deliveries of before may be reported late, between the two.
            What::Recovered => era += 1,
            What::Log { .. }
            | What::Failed { .. }
            | What::Ready
            | What::Written
            | What::Left
            | What::Killing
            | What::Counted => {}
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
            if faults == Faults::None || !ends.explain(id, pair[0], pair[1]) {
                wrong.push(format!("{id} was delivered by {} and again by {}", pair[0].by, pair[1].by));
            }
        }
    }
    if faults == Faults::None && !evicted.is_empty() {
        wrong.push(format!("evicted without a fault: {evicted:?}"));
    }
    // While the database is down, leases run out: each crash may end nodes too.
    wrong.extend(judge_rows(&ends, &events, faults, evictions + crashes));
    if wrong.is_empty() {
        let (committed, killed) = (evidence.parcels.len(), evidence.killed.len());
        let evicted = evicted.len();
        return Ok(format!(
            "{committed} events, {rolled_back} rollbacks, {killed} kills, {evicted} evicted, {crashes} crashes of the database, \
             {again} delivered again, {taken_back} delivered and taken back"
        ));
    }
    Err(wrong)
}

/// The rows of the outbox: the same events as the business rows, all done, and nobody holds anything.
fn judge_rows(
    ends: &Ends<'_>,
    events: &BTreeMap<&str, Event<'_>>,
    faults: Faults,
    evictions: usize,
) -> Vec<String> {
    let (evidence, mut wrong) = (ends.evidence, Vec::new());
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
            Faults::Some => attempts <= event.balked + ends.attempts(&id, event, evictions),
        };
        if !fits {
            wrong.push(format!("{id} failed {} times and has {attempts} attempts", event.balked));
        }
    }
    let left = evidence.nodes.iter().filter(|node| !evidence.killed.contains_key(&node.label));
    wrong.extend(left.map(|node| format!("{} stopped in order and is still listed", node.label)));
    if evidence.held_groups > 0 {
        wrong.push(format!("{} groups are held back", evidence.held_groups));
    }
    wrong
}
