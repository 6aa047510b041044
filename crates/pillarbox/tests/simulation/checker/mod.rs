//! The one judge of histories: loss, phantoms, order, duplicates, fences, attempts, bounds.

mod delivering;
mod ending;
mod order;
mod settling;
mod tale;

use std::time::Duration;

use crate::facts::Facts;
use crate::history::{History, What};
use crate::plan::Plan;
use crate::world::Told;
use tale::Tale;

/// How the store stood at the end.
#[derive(Debug, Default)]
pub(crate) struct Ending {
    /// Events still pending, and whether their group is held back.
    pub(crate) pending: Vec<(usize, bool)>,
    /// Nodes that are still members though they closed.
    pub(crate) left_behind: usize,
    /// How long the drain took; none if it did not end.
    pub(crate) drained: Option<Duration>,
}

/// Everything that is wrong with a run.
pub(crate) fn judge(
    plan: &Plan,
    events: &[Told],
    history: &History,
    ending: &Ending,
    facts: &mut Facts,
) -> Vec<String> {
    let mut tale = Tale::new(plan, events);
    for (place, entry) in history.entries.iter().enumerate() {
        tale.now = (place, entry.at);
        match &entry.what {
            What::Began { tx } => tale.began(*tx),
            What::Committed { tx } => tale.committed(*tx),
            What::Sent { delivery, member, events, clock } => tale.sent(*delivery, *member, events, *clock),
            What::Accepted { delivery, event } => tale.accepted(*delivery, *event),
            What::Answered { delivery, said } => tale.answered(*delivery, said),
            What::Cut { delivery } => tale.cut(*delivery),
            What::Settled { member, rows, .. } => tale.settled(*member, rows),
            What::Acted { event, act } => tale.acted(*event, *act),
            What::Jumped { seconds } => tale.jumped(*seconds),
            What::Depth { .. } => tale.wrong(entry.what.to_string()),
            _ => {}
        }
    }
    order::check(&mut tale);
    ending::check(&mut tale, ending);
    facts.extend(tale.facts.iter());
    tale.wrongs
}
