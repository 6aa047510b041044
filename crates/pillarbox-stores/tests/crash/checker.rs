//! The checker: judges what a run left behind.

use std::collections::{BTreeMap, BTreeSet};

use pillarbox::model::Status;

use crate::crew::Evidence;
use crate::journal::What;
use crate::plan::Mode;

/// What the engine logs when it learns that it was buried, by a beat or by a settle.
const BURIED: [&str; 2] = ["node was buried", "ownership lost"];

/// Why an incarnation may have delivered what another delivers again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Faults {
    /// None was made: everything arrives once.
    None,
    /// Processes were killed, stopped or starved.
    Some,
}

#[derive(Default)]
struct Event<'a> {
    /// Who delivered it, in order, and after how many crashes of the database.
    by: Vec<(&'a str, usize)>,
    balked: usize,
}

/// Counts for people, if nothing is wrong; else all that is.
pub(crate) fn judge(evidence: &Evidence, mode: Mode, faults: Faults) -> Result<String, Vec<String>> {
    let mut wrong = Vec::new();
    let mut events: BTreeMap<&str, Event<'_>> = BTreeMap::new();
    let mut firsts: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    let mut buried: BTreeSet<&str> = BTreeSet::new();
    let (mut rolled_back, mut burials, mut crashes) = (0, 0, 0);
    for line in &evidence.lines {
        let by = line.by.as_str();
        match &line.what {
            What::Delivered { group, number, id } => {
                let event = events.entry(id).or_default();
                if event.by.is_empty() {
                    firsts.entry(*group).or_default().push(*number);
                }
                event.by.push((by, crashes));
                if evidence.parcels.get(id) != Some(&(*group, *number)) {
                    wrong.push(format!("{by} delivered {id}, which was not committed"));
                }
            }
            What::Balked { id } => events.entry(id).or_default().balked += 1,
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
            What::Log { text } if BURIED.iter().any(|told| text.contains(told)) => {
                buried.insert(by);
                burials += 1;
            }
            What::Crashed => crashes += 1,
            What::Log { .. } | What::Failed { .. } | What::Ready | What::Written | What::Left => {}
        }
    }
    if mode == Mode::Ordered {
        for (group, numbers) in &firsts {
            let at = numbers.iter().zip(1..).position(|(number, due)| *number != due);
            wrong.extend(at.map(|at| format!("group {group}: {} came as number {}", numbers[at], at + 1)));
        }
    }
    let ended = |by: &str| evidence.killed.contains(by) || buried.contains(by);
    let mut again = 0;
    for (id, event) in &events {
        for pair in event.by.windows(2) {
            again += 1;
            // One that stood still in the middle of a delivery ends it after others have made it.
            let explained = ended(pair[0].0) || buried.contains(pair[1].0) || pair[0].1 < pair[1].1;
            if faults == Faults::None || !explained {
                wrong.push(format!("{id} was delivered by {} and again by {}", pair[0].0, pair[1].0));
            }
        }
    }
    if faults == Faults::None && !buried.is_empty() {
        wrong.push(format!("buried without a fault: {buried:?}"));
    }
    wrong.extend(judge_rows(evidence, &events, faults, evidence.killed.len() + burials));
    if wrong.is_empty() {
        let (committed, killed) = (evidence.parcels.len(), evidence.killed.len());
        let buried = buried.len();
        return Ok(format!(
            "{committed} events, {rolled_back} rollbacks, {killed} kills, {buried} buried, {crashes} crashes of the database, \
             {again} delivered again"
        ));
    }
    Err(wrong)
}

/// The rows of the outbox: the same events as the business rows, all done, and nobody holds anything.
fn judge_rows(
    evidence: &Evidence,
    events: &BTreeMap<&str, Event<'_>>,
    faults: Faults,
    ends: usize,
) -> Vec<String> {
    let mut wrong = Vec::new();
    if evidence.records.len() != evidence.parcels.len() {
        wrong.push(format!("{} events for {} parcels", evidence.records.len(), evidence.parcels.len()));
    }
    for record in &evidence.records {
        let id = record.id.to_string();
        let Some(event) = events.get(id.as_str()).filter(|event| !event.by.is_empty()) else {
            wrong.push(format!("{id} was never delivered"));
            continue;
        };
        if record.status != Status::Done || record.locked_by.is_some() {
            wrong.push(format!("{id} was delivered and is {:?}", record.status));
        }
        let attempts = record.attempts as usize;
        let fits = match faults {
            Faults::None => attempts == event.balked,
            Faults::Some => attempts <= event.balked + ends,
        };
        if !fits {
            wrong.push(format!("{id} failed {} times and has {attempts} attempts", event.balked));
        }
    }
    let left = evidence.nodes.iter().filter(|node| !evidence.killed.contains(&node.label));
    wrong.extend(left.map(|node| format!("{} stopped in order and is still listed", node.label)));
    if evidence.held_groups > 0 {
        wrong.push(format!("{} groups are held back", evidence.held_groups));
    }
    wrong
}
