//! Slots: shared evenly, handed over in order, taken over from the dead.

use pillarbox::port::{Heartbeat, ReadScope, Register};

use crate::case::{Case, Checked, cases};
use crate::harness::Fixture;
use crate::kit::*;

pub(crate) fn cases() -> Vec<Case> {
    cases!("share"; Nothing:
        the_first_node_holds_everything,
        a_newcomer_gets_its_share_once_it_is_released,
        a_released_slot_is_not_taken_back_by_the_same_heartbeat,
        only_the_holder_releases_a_slot,
        shares_of_three_are_even_and_cover_everything,
        nodes_that_joined_together_count_by_their_ids,
        an_evicted_nodes_slots_are_suspect_once,
        a_stopped_nodes_slots_are_free_at_once,
        a_dead_nodes_lane_is_taken_over_and_dropped_when_drained,
        a_joining_node_takes_an_orphaned_lane,
        a_nodes_own_lane_is_never_released,
        a_sweep_finds_lanes_that_nobody_holds,
        a_node_that_reads_its_own_lane_only_takes_no_share,
    )
}

fn range(first: i16, end: i16) -> Vec<i16> {
    (first..end).collect()
}

/// PBX-011
async fn the_first_node_holds_everything(t: Fixture) -> Checked {
    let joined = t.join(1, at(0)).await?;
    let slots = t.store.facts().slots;
    assert_eq!(held(&joined), [range(0, slots), vec![64]].concat());
    assert_eq!((suspects(&joined), joined.nodes), (vec![], 1));
    assert!(joined.give.is_empty());
    assert_eq!(held(&t.heartbeat(1, at(1)).await?), held(&joined));
    Ok(())
}

/// PBX-093
async fn a_node_that_reads_its_own_lane_only_takes_no_share(t: Fixture) -> Checked {
    let slots = t.store.facts().slots;
    let label = String::from("alone");
    let join = Register { node: node(1), label, reads: ReadScope::OwnLane, lease: LEASE, now: Some(at(0)) };
    let alone = t.store.register(join).await?;
    let lane = alone.lane.0;
    assert_eq!((held(&alone), alone.lane == pillarbox::model::Lane::FIRST_ALONE), (vec![lane], true));
    let second = t.join(2, at(1)).await?;
    assert_eq!(
        held(&second),
        [range(0, slots), vec![64]].concat(),
        "all of the rest is for the one that reads"
    );
    assert!(t.heartbeat(2, at(2)).await?.give.is_empty());
    assert_eq!(held(&t.heartbeat(1, at(2)).await?), [lane], "nobody takes the lane of a living node");
    t.heartbeat(2, at(31)).await?;
    assert_eq!(
        held(&t.heartbeat(2, at(33)).await?),
        [range(0, slots), vec![64, lane]].concat(),
        "but of a dead one"
    );
    Ok(())
}

/// PBX-011
async fn a_newcomer_gets_its_share_once_it_is_released(t: Fixture) -> Checked {
    let half = t.store.facts().slots / 2;
    t.join(1, at(0)).await?;
    let second = t.join(2, at(1)).await?;
    assert_eq!((held(&second), second.nodes), (vec![65], 2), "nothing is free yet but its lane");
    let first = t.heartbeat(1, at(2)).await?;
    let give: Vec<i16> = first.give.iter().map(|slot| slot.0).collect();
    assert_eq!(give, range(half, half * 2));
    assert_eq!(held(&t.heartbeat(2, at(3)).await?), [65], "a slot has one holder until it is released");
    let first = t.release(1, &give, at(4)).await?;
    assert_eq!(held(&first), [range(0, half), vec![64]].concat());
    assert!(first.give.is_empty());
    let second = t.heartbeat(2, at(5)).await?;
    assert_eq!(held(&second), [range(half, half * 2), vec![65]].concat());
    assert_eq!(suspects(&second), NO_SLOTS, "handed over in order");
    Ok(())
}

/// PBX-011
async fn a_released_slot_is_not_taken_back_by_the_same_heartbeat(t: Fixture) -> Checked {
    t.join(1, at(0)).await?;
    assert!(!held(&t.release(1, &[3, 5], at(1)).await?).iter().any(|slot| [3, 5].contains(slot)));
    let next = t.heartbeat(1, at(2)).await?;
    assert!(held(&next).contains(&3) && held(&next).contains(&5));
    assert_eq!(suspects(&next), NO_SLOTS);
    Ok(())
}

/// PBX-011
async fn only_the_holder_releases_a_slot(t: Fixture) -> Checked {
    let first = held(&t.join(1, at(0)).await?);
    let second = t.join(2, at(0)).await?;
    assert_eq!(held(&t.release(2, &[0, 1, 64], at(1)).await?), held(&second));
    assert_eq!(held(&t.heartbeat(1, at(2)).await?), first);
    Ok(())
}

/// PBX-011
async fn shares_of_three_are_even_and_cover_everything(t: Fixture) -> Checked {
    let slots = t.store.facts().slots;
    for number in 1..=3 {
        t.join(number, at(i64::try_from(number).expect("small"))).await?;
    }
    for now in 10..14 {
        for number in 1..=3 {
            let give: Vec<i16> = t.heartbeat(number, at(now)).await?.give.iter().map(|slot| slot.0).collect();
            t.release(number, &give, at(now)).await?;
        }
    }
    let mut all = Vec::new();
    for number in 1..=3 {
        let told = t.heartbeat(number, at(20)).await?;
        let mine: Vec<i16> = held(&told).into_iter().filter(|slot| *slot < 64).collect();
        assert!(mine.len() >= usize::try_from(slots / 3).expect("positive"), "{mine:?}");
        assert!(mine.windows(2).all(|pair| pair[1] == pair[0] + 1), "contiguous");
        all.extend(mine);
    }
    assert_eq!(all, range(0, slots), "in the order they joined, each slot once");
    Ok(())
}

/// PBX-011
async fn nodes_that_joined_together_count_by_their_ids(t: Fixture) -> Checked {
    let half = t.store.facts().slots / 2;
    t.join(2, at(0)).await?;
    t.join(1, at(0)).await?;
    let give: Vec<i16> = t.heartbeat(2, at(1)).await?.give.iter().map(|slot| slot.0).collect();
    assert_eq!(give, range(0, half), "the lower id has the first share");
    Ok(())
}

/// PBX-011
async fn an_evicted_nodes_slots_are_suspect_once(t: Fixture) -> Checked {
    let slots = t.store.facts().slots;
    t.join(1, at(0)).await?;
    t.join(2, at(10)).await?;
    let heir = t.heartbeat(2, at(30)).await?;
    assert_eq!(held(&heir), range(0, slots).into_iter().chain([64, 65]).collect::<Vec<_>>());
    assert_eq!(suspects(&heir), [range(0, slots), vec![64]].concat());
    let next = t.heartbeat(2, at(31)).await?;
    assert_eq!((held(&next), suspects(&next)), (held(&heir), vec![]));
    Ok(())
}

/// PBX-011
async fn a_stopped_nodes_slots_are_free_at_once(t: Fixture) -> Checked {
    t.join(1, at(0)).await?;
    t.join(2, at(1)).await?;
    t.store.leave(node(1)).await?;
    let heir = t.heartbeat(2, at(2)).await?;
    assert_eq!(held(&heir).len(), usize::try_from(t.store.facts().slots).expect("positive") + 2);
    assert_eq!((suspects(&heir), heir.nodes), (vec![], 1));
    Ok(())
}

/// PBX-012
async fn a_dead_nodes_lane_is_taken_over_and_dropped_when_drained(t: Fixture) -> Checked {
    t.join(1, at(0)).await?;
    t.write(vec![in_lane(event("a"), 64)], at(0)).await?;
    t.join(2, at(10)).await?;
    let heir = t.heartbeat(2, at(30)).await?;
    assert!(held(&heir).contains(&64) && suspects(&heir).contains(&64));
    assert!(heir.ready, "its rows are waiting");
    assert!(heir.give.is_empty(), "a lane stays with its holder");
    let drained = t.release(2, &[64], at(31)).await?;
    assert!(!held(&drained).contains(&64));
    assert!(!held(&t.heartbeat(2, at(32)).await?).contains(&64), "it is not there to be taken again");
    assert_eq!(t.join(3, at(33)).await?.lane.0, 64, "its number is free");
    Ok(())
}

/// PBX-012
async fn a_joining_node_takes_an_orphaned_lane(t: Fixture) -> Checked {
    t.join(1, at(0)).await?;
    t.join(2, at(10)).await?;
    t.store.leave(node(2)).await?;
    let third = t.join(3, at(20)).await?;
    assert_eq!(third.lane.0, 65);
    assert_eq!(suspects(&third), NO_SLOTS, "the lane was left in order");
    let fourth = t.join(4, at(40)).await?;
    assert_eq!(fourth.lane.0, 64, "node 1 has expired");
    assert!(suspects(&fourth).contains(&64), "the lane of a dead node is suspect");
    Ok(())
}

/// PBX-012
async fn a_nodes_own_lane_is_never_released(t: Fixture) -> Checked {
    t.join(1, at(0)).await?;
    let told = t.release(1, &[64], at(1)).await?;
    assert!(held(&told).contains(&64));
    assert!(held(&t.heartbeat(1, at(2)).await?).contains(&64));
    Ok(())
}

/// PBX-012
async fn a_sweep_finds_lanes_that_nobody_holds(t: Fixture) -> Checked {
    t.join(1, at(0)).await?;
    t.write(vec![in_lane(event("a"), 77), in_lane(event("b"), 78)], at(0)).await?;
    t.apply("b", pillarbox::port::Change::Done, at(0)).await?;
    assert!(!held(&t.heartbeat(1, at(1)).await?).contains(&77));
    let swept = t.heartbeat_with(Heartbeat { sweep: true, ..heartbeat(1, at(2)) }).await?;
    assert!(held(&swept).contains(&77) && !held(&swept).contains(&78), "only lanes with pending rows");
    assert_eq!(suspects(&swept), NO_SLOTS);
    assert!(swept.ready);
    Ok(())
}
