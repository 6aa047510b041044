//! Judges the end: nothing is lost, everything drained, nobody left a lease behind.

use super::Ending;
use super::tale::Tale;

pub(super) fn check(tale: &mut Tale<'_>, ending: &Ending) {
    let unfinished: Vec<usize> = ending
        .pending
        .iter()
        .filter(|(_, held)| tale.plan.frees_groups || !held)
        .map(|(event, _)| *event)
        .collect();
    if ending.drained.is_none() {
        tale.wrong(format!("stuck: {unfinished:?} are pending after 10 minutes without a fault"));
    }
    for event in 0..tale.told.len() {
        let story = &tale.stories[event];
        if story.taken_back {
            continue;
        }
        let pending = ending.pending.iter().any(|(number, _)| *number == event);
        if story.committed.is_some() && story.end.is_none() && !pending {
            tale.wrong(format!("lost: e{event} is neither pending nor ended"));
        }
        if pending && tale.stories[event].end.is_some() {
            tale.wrong(format!("e{event} has ended and is pending again"));
        }
    }
    if ending.left_behind > 0 {
        tale.wrong(format!("{} nodes closed and left their lease behind", ending.left_behind));
    }
}
