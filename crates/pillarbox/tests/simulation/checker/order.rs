//! Judges order: in a group, what was committed before another's transaction began is accepted first.

use std::collections::BTreeMap;

use pillarbox::port::Order;

use super::tale::Tale;

pub(super) fn check(tale: &mut Tale<'_>) {
    // What was committed after a failover may have lower numbers than what is read of its group.
    if tale.plan.tuning.order != Order::PerGroup || tale.put_back {
        return;
    }
    let mut groups: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (event, (story, told)) in tale.stories.iter().zip(tale.told).enumerate() {
        if let (Some(group), Some(_), false) = (&told.group, story.committed, told.delayed || story.exempt) {
            groups.entry(group.as_str()).or_default().push(event);
        }
    }
    let mut wrongs = Vec::new();
    for (group, events) in groups {
        for (&first, &second) in events.iter().flat_map(|a| events.iter().map(move |b| (a, b))) {
            let (a, b) = (&tale.stories[first], &tale.stories[second]);
            if a.committed.is_none_or(|committed| committed >= b.began) {
                continue;
            }
            if b.first_accept.is_some() && (a.first_accept.is_none() || a.first_accept > b.first_accept) {
                wrongs.push(format!("order of {group}: e{second} was accepted before e{first}"));
            }
        }
    }
    // A number drawn early and committed late is what a plain cursor would lose.
    let late = |(a, b): (&super::tale::Story, &super::tale::Story)| {
        a.began < b.began && a.committed > b.committed && a.first_accept > b.first_accept
    };
    if tale.stories.iter().zip(tale.stories.iter().skip(1)).any(late) {
        tale.facts.insert(("event", "committed late"));
    }
    wrongs.into_iter().for_each(|wrong| tale.wrong(wrong));
}
