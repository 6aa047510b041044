//! The checker: judges what a run left behind.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use pillarbox::model::Status;

use self::faults::{Delivery, Event, Faulted, is_eviction};
use crate::crew::{Evidence, Fault};
use crate::fixtures::Commits;
use crate::journal::What;
use crate::plan::Mode;

mod attempts;
mod faults;
pub(crate) mod forged;

/// Why an incarnation may have delivered what another delivers again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Faults {
    /// None was made: everything arrives once.
    None,
    /// Processes were killed, stopped or starved.
    Some,
}

/// What a run was to show.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    pub(crate) mode: Mode,
    pub(crate) faults: Faults,
    pub(crate) commits: Commits,
    pub(crate) lease: Duration,
}

/// Counts for people, if nothing is wrong; else all that is.
pub(crate) fn judge(evidence: &Evidence, terms: Terms) -> Result<String, Vec<String>> {
    let Terms { mode, faults, commits, lease } = terms;
    let mut wrong = Vec::new();
    let mut events: BTreeMap<&str, Event<'_>> = BTreeMap::new();
    let mut firsts: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    let faulted = Faulted::read(evidence, lease);
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
            What::Balked { id } => events.entry(id).or_default().balked.push(at),
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
    let pairs =
        events.iter().flat_map(|(id, event)| event.deliveries.windows(2).map(|two| (*id, two[0], two[1])));
    let again = pairs.clone().count();
    let unexplained = match faults {
        Faults::None => pairs.collect(),
        Faults::Some => faulted.unexplained(pairs),
    };
    let told = |(id, first, again): (&str, Delivery<'_>, Delivery<'_>)| {
        format!("{id} was delivered by {} and again by {}", first.by, again.by)
    };
    wrong.extend(unexplained.into_iter().map(told));
    if faults == Faults::None && !evicted.is_empty() {
        wrong.push(format!("evicted without a fault: {evicted:?}"));
    }
    wrong.extend(judge_rows(evidence, &events));
    wrong.extend(match faults {
        Faults::None => judge_refusals(evidence, &events),
        Faults::Some => attempts::judge(evidence, &faulted, &events, mode),
    });
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
fn judge_rows(evidence: &Evidence, events: &BTreeMap<&str, Event<'_>>) -> Vec<String> {
    let mut wrong = Vec::new();
    if evidence.records.len() != evidence.parcels.len() {
        wrong.push(format!("{} events for {} parcels", evidence.records.len(), evidence.parcels.len()));
    }
    for record in &evidence.records {
        let id = record.id.as_str();
        if events.get(id).is_none_or(|event| event.deliveries.is_empty()) {
            wrong.push(format!("{id} was never delivered"));
        } else if record.status != Status::Done || record.locked {
            wrong.push(format!("{id} was delivered and is {:?}", record.status));
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

/// Without a fault the attempts are the refusals.
fn judge_refusals(evidence: &Evidence, events: &BTreeMap<&str, Event<'_>>) -> Vec<String> {
    let refused = |id: &str| events.get(id).map_or(0, |event| event.balked.len());
    let wrong = evidence.records.iter().filter(|record| record.attempts != refused(&record.id));
    wrong
        .map(|record| {
            format!("{} failed {} times and has {} attempts", record.id, refused(&record.id), record.attempts)
        })
        .collect()
}
