//! Judges the attempts of the rows: each was refused, delivered from quarantine, or cut off by a fault.
//!
//! After an eviction the pending events are suspect. At first as many of them go at a time as there are workers, and half
//! as many after each further eviction. Only those that go alone have their attempt recorded ahead, one at a time, and it
//! stays if the delivery succeeds.

use std::collections::BTreeMap;

use super::faults::{Event, Faulted, WORKERS, is_eviction, is_registration};
use crate::crew::{Evidence, Fault};
use crate::journal::What;
use crate::plan::Mode;

/// The processes that run at once, at most.
const PROCESSES: usize = 3;

/// The attempts of one event that no refusal explains.
struct Charge<'a> {
    id: &'a str,
    group: u32,
    /// The line of its last delivery.
    at: usize,
    /// How many there are.
    attempts: usize,
    /// How many of them were not followed by a delivery.
    undelivered: usize,
}

/// The lines at which membership changed or may have changed.
struct Changes {
    evictions: Vec<usize>,
    all: Vec<usize>,
}

impl Changes {
    fn read(evidence: &Evidence, faulted: &Faulted<'_>) -> Self {
        let ended =
            faulted.intervals.iter().filter(|one| matches!(one.fault, Fault::Killed | Fault::Stopped));
        let mut evictions: Vec<usize> = ended.map(|one| one.at).collect();
        evictions.extend(faulted.lost.iter().map(|term| term.evicted));
        let mut joined = Vec::new();
        for (at, line) in evidence.lines.iter().enumerate() {
            match &line.what {
                // A call that failed may have registered a node that is evicted later.
                What::Failed { .. } => evictions.push(at),
                What::Log { text } if text.contains("failed") => evictions.push(at),
                What::Left => joined.push(at),
                _ if is_registration(line) || is_eviction(line) => joined.push(at),
                _ => {}
            }
        }
        let all = evictions.iter().copied().chain(joined).collect();
        Self { evictions, all }
    }
}

/// Everything that is wrong with the attempts.
pub(super) fn judge(
    evidence: &Evidence,
    faulted: &Faulted<'_>,
    events: &BTreeMap<&str, Event<'_>>,
    mode: Mode,
) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut charges = Vec::new();
    for record in &evidence.records {
        let id = record.id.as_str();
        let Some(event) = events.get(id) else { continue };
        let attempts = record.attempts.saturating_sub(event.balked.len());
        let undelivered = attempts.saturating_sub(event.deliveries.len());
        if undelivered > faulted.cuts(id, event) {
            wrong.push(format!(
                "{id} failed {} times and has {} attempts",
                event.balked.len(),
                record.attempts
            ));
        }
        if attempts > 0 {
            let at = event.deliveries.last().map_or(0, |delivery| delivery.at);
            let group = evidence.parcels.get(id).map_or(0, |(group, _)| *group);
            charges.push(Charge { id, group, at, attempts, undelivered });
        }
    }
    charges.sort_by_key(|charge| charge.at);
    wrong.extend(judge_undelivered(faulted, &charges));
    let changes = Changes::read(evidence, faulted);
    wrong.extend(judge_early(&changes, &charges));
    if mode == Mode::Ordered {
        wrong.extend(judge_heads(&changes, &charges));
    }
    wrong
}

/// A process records one attempt at a time, so each end of a process leaves at most one without a delivery.
fn judge_undelivered(faulted: &Faulted<'_>, charges: &[Charge<'_>]) -> Option<String> {
    let most: usize = faulted.lost.len()
        + faulted.intervals.iter().map(|one| if one.loses_answers() { PROCESSES } else { 1 }).sum::<usize>();
    let undelivered: usize = charges.iter().map(|charge| charge.undelivered).sum();
    (undelivered > most)
        .then(|| format!("{undelivered} attempts without a delivery, for {most} ends of processes"))
}

/// No attempt is recorded ahead before so many evictions that events go alone.
fn judge_early(changes: &Changes, charges: &[Charge<'_>]) -> Vec<String> {
    let alone_after = WORKERS.ilog2() as usize + 1;
    let evictions = |at| changes.evictions.iter().filter(|eviction| **eviction < at).count();
    let early = charges.iter().filter(|charge| evictions(charge.at) < alone_after);
    early
        .map(|charge| format!("{} has an attempt that nobody refused, and did not go alone", charge.id))
        .collect()
}

/// Only the first event of a group is suspect, once for each time that its slot changes hands.
fn judge_heads(changes: &Changes, charges: &[Charge<'_>]) -> Vec<String> {
    let mut charged: BTreeMap<u32, usize> = BTreeMap::new();
    let mut wrong = Vec::new();
    for charge in charges {
        let sum = charged.entry(charge.group).or_default();
        *sum += charge.attempts;
        let most = changes.all.iter().filter(|change| **change < charge.at).count();
        if *sum > most {
            let group = charge.group;
            wrong.push(format!(
                "group {group}: {sum} attempts that nobody refused, for {most} changes of its holder"
            ));
        }
    }
    wrong
}
