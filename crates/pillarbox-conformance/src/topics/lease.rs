//! Nodes: joining, renewing, leaving, and being evicted.

use pillarbox::model::{Lane, Seq};
use pillarbox::port::{Change, ErrorKind, GroupAction, Heartbeat, HeldGroups, ReadScope, Register};

use crate::case::{Case, Checked, cases};
use crate::harness::Fixture;
use crate::kit::*;

pub(crate) fn cases() -> Vec<Case> {
    cases!("lease";
    Nothing:
        a_heartbeat_tells_of_rows_beyond_what_was_read,
        a_heartbeat_tells_when_the_next_delayed_row_is_due,
        a_heartbeat_tells_the_oldest_row_it_holds,
        a_heartbeat_tells_of_groups_that_changed,
        an_evicted_nodes_slots_tell_what_it_can_have_read;
    AnyKind:
        joining_twice_is_a_conflict,
        every_node_has_a_lane_of_its_own,
        a_heartbeat_renews_the_lease,
        an_expired_node_is_evicted_by_anothers_heartbeat,
        an_expired_node_is_evicted_by_a_join,
        an_evicted_node_learns_it_and_changes_nothing,
        a_node_that_expired_but_was_not_evicted_renews_itself,
        a_node_can_join_again_under_a_new_id_only_after_eviction,
        leaving_twice_is_harmless,
        node_leases_are_counted_by_the_databases_clock;
    )
}

/// PBX-011
async fn joining_twice_is_a_conflict(t: Fixture) -> Checked {
    t.join(1, at(0)).await?;
    let error = t.join(1, at(1)).await.expect_err("it is there");
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert_eq!(t.heartbeat(1, at(1)).await?.nodes, 1);
    Ok(())
}

/// PBX-012
async fn every_node_has_a_lane_of_its_own(t: Fixture) -> Checked {
    let mut lanes = Vec::new();
    for number in 1..=5 {
        let joined = t.join(number, at(0)).await?;
        assert!(joined.lane >= Lane::FIRST && held(&joined).contains(&joined.lane.0));
        lanes.push(joined.lane.0);
    }
    assert_eq!(lanes, [64, 65, 66, 67, 68]);
    assert_eq!(t.heartbeat(3, at(1)).await?.lane, Lane(66), "a lane stays");
    Ok(())
}

/// PBX-011
async fn a_heartbeat_renews_the_lease(t: Fixture) -> Checked {
    t.join(1, at(0)).await?;
    for now in [20, 40, 60] {
        t.heartbeat(1, at(now)).await?;
    }
    t.join(2, at(89)).await?;
    assert_eq!(t.heartbeat(1, at(89)).await?.nodes, 2);
    Ok(())
}

/// PBX-011
async fn an_expired_node_is_evicted_by_anothers_heartbeat(t: Fixture) -> Checked {
    t.join(1, at(0)).await?;
    t.join(2, at(10)).await?;
    assert_eq!(t.heartbeat(2, at(29)).await?.nodes, 2);
    assert_eq!(t.heartbeat(2, at(30)).await?.nodes, 1, "expired at that very time");
    assert!(t.store.heartbeat(heartbeat(1, at(30))).await?.is_none());
    Ok(())
}

/// PBX-011
async fn an_expired_node_is_evicted_by_a_join(t: Fixture) -> Checked {
    t.join(1, at(0)).await?;
    let joined = t.join(2, at(30)).await?;
    assert_eq!(joined.nodes, 1);
    assert_eq!(suspects(&joined), held(&joined), "all it holds was the dead node's");
    Ok(())
}

/// PBX-063
async fn an_evicted_nodes_slots_tell_what_it_can_have_read(t: Fixture) -> Checked {
    t.join(1, at(0)).await?;
    let before = t.write(plain(&["a", "b"]), at(0)).await?;
    let heir = t.join(2, at(30)).await?;
    let after = t.write(plain(&["c"]), at(31)).await?;
    for held in &heir.held {
        let upto = held.quarantine.expect("its holder was evicted").upto;
        assert!(before[1].seq <= upto && upto < after[0].seq, "{upto:?}");
    }
    Ok(())
}

/// PBX-011
async fn an_evicted_node_learns_it_and_changes_nothing(t: Fixture) -> Checked {
    t.join(1, at(0)).await?;
    t.join(2, at(10)).await?;
    t.store.leave(node(1)).await?;
    let mine = held(&t.heartbeat(2, at(11)).await?);
    assert!(t.store.heartbeat(heartbeat(1, at(100))).await?.is_none());
    let after = t.heartbeat(2, at(101)).await?;
    assert_eq!((held(&after), after.nodes), (mine, 1), "who is not there evicts nobody");
    Ok(())
}

/// PBX-011
async fn a_node_that_expired_but_was_not_evicted_renews_itself(t: Fixture) -> Checked {
    t.join(1, at(0)).await?;
    let again = t.heartbeat(1, at(500)).await?;
    assert_eq!(again.nodes, 1);
    assert_eq!(suspects(&again), NO_SLOTS);
    assert_eq!(t.join(2, at(529)).await?.nodes, 2, "its lease counts from the heartbeat");
    Ok(())
}

/// PBX-011
async fn a_node_can_join_again_under_a_new_id_only_after_eviction(t: Fixture) -> Checked {
    t.join(1, at(0)).await?;
    assert!(t.join(1, at(29)).await.is_err());
    assert_eq!(t.join(1, at(30)).await?.nodes, 1, "an expired one is evicted first");
    Ok(())
}

/// PBX-011
async fn leaving_twice_is_harmless(t: Fixture) -> Checked {
    t.join(1, at(0)).await?;
    t.join(2, at(0)).await?;
    for _ in 0..2 {
        t.store.leave(node(1)).await?;
    }
    t.store.leave(node(9)).await?;
    assert!(t.store.heartbeat(heartbeat(1, at(1))).await?.is_none());
    assert_eq!(t.heartbeat(2, at(1)).await?.nodes, 1);
    Ok(())
}

/// PBX-016
async fn a_heartbeat_tells_of_rows_beyond_what_was_read(t: Fixture) -> Checked {
    let lane = t.join(1, at(0)).await?.lane.0;
    let last = t.write(vec![in_slot(event("a")), in_lane(event("b"), lane)], at(0)).await?[1].seq;
    for (after, ready) in [(Seq(0), true), (Seq(last.0 - 1), true), (last, false)] {
        assert_eq!(
            t.heartbeat_with(Heartbeat { after, ..heartbeat(1, at(1)) }).await?.ready,
            ready,
            "{after}"
        );
    }
    t.write(vec![in_lane(event("other"), 90), in_queue(event("q")), in_slot(event("d").due(at(9)))], at(1))
        .await?;
    assert!(
        !t.heartbeat_with(Heartbeat { after: last, ..heartbeat(1, at(1)) }).await?.ready,
        "not of what others deliver"
    );
    t.apply("a", Change::Done, at(1)).await?;
    t.apply("b", Change::Done, at(1)).await?;
    assert!(!t.heartbeat(1, at(1)).await?.ready, "not of ended rows");
    t.write(plain(&["c"]), at(1)).await?;
    assert!(t.join(2, at(2)).await.map(|joined| !joined.ready)?, "it holds nothing yet");
    Ok(())
}

/// PBX-014, PBX-016
async fn a_heartbeat_tells_when_the_next_delayed_row_is_due(t: Fixture) -> Checked {
    t.write(vec![in_queue(event("q").due(at(5)))], at(0)).await?;
    assert_eq!(t.join(1, at(0)).await?.next_due, None);
    t.write(vec![in_slot(event("a").due(at(25))), in_slot(event("b").due(at(20)))], at(0)).await?;
    assert_eq!(t.heartbeat(1, at(5)).await?.next_due, Some(secs(15)));
    assert_eq!(t.heartbeat(1, at(20)).await?.next_due, Some(secs(0)));
    assert_eq!(t.heartbeat(1, at(22)).await?.next_due, Some(secs(0)));
    t.apply("b", Change::Done, at(22)).await?;
    assert_eq!(t.heartbeat(1, at(22)).await?.next_due, Some(secs(3)));
    Ok(())
}

/// PBX-022
async fn a_heartbeat_tells_the_oldest_row_it_holds(t: Fixture) -> Checked {
    let joined = t.join(1, at(0)).await?;
    assert_eq!((joined.oldest, joined.now), (None, at(0)));
    t.write(vec![in_lane(event("other"), 90)], at(1)).await?;
    t.write(plain(&["a"]), at(3)).await?;
    t.write(plain(&["b"]), at(2)).await?;
    assert_eq!(t.heartbeat(1, at(5)).await?.oldest, Some(at(3)), "the first by number");
    t.apply("a", Change::Done, at(5)).await?;
    let told = t.heartbeat(1, at(6)).await?;
    assert_eq!((told.oldest, told.now), (Some(at(2)), at(6)));
    Ok(())
}

/// PBX-010
async fn a_heartbeat_tells_of_groups_that_changed(t: Fixture) -> Checked {
    let first = t.join(1, at(0)).await?.groups.expect("a join tells all");
    assert!(first.held.is_empty());
    let seen = |groups_seen| Heartbeat { groups_seen, ..heartbeat(1, at(1)) };
    assert_eq!(t.heartbeat_with(seen(first.epoch)).await?.groups, None);
    t.change_group("h", GroupAction::Pause, at(1)).await?;
    t.write(grouped("g", &["a"]), at(0)).await?;
    t.apply("a", dead_blocking("g"), at(2)).await?;
    let second = t.heartbeat_with(seen(first.epoch)).await?.groups.expect("two changes");
    assert!(second.epoch > first.epoch);
    let names: Vec<&str> = second.held.iter().map(|held| held.group.as_str()).collect();
    assert_eq!(names, ["g", "h"]);
    assert_eq!(second.held, t.store.admin().groups(HeldGroups::first()).await?);
    assert_eq!(t.heartbeat_with(seen(second.epoch)).await?.groups, None);
    t.change_group("h", GroupAction::Resume, at(3)).await?;
    let third = t.heartbeat_with(seen(second.epoch)).await?.groups.expect("a change");
    assert_eq!((third.held.len(), third.epoch > second.epoch), (1, true));
    Ok(())
}

/// PBX-014
async fn node_leases_are_counted_by_the_databases_clock(t: Fixture) -> Checked {
    let lease = secs(3600);
    t.store
        .register(Register {
            node: node(1),
            label: "one".to_owned(),
            reads: ReadScope::Share,
            lease,
            now: None,
        })
        .await?;
    let told = t.beside.admin().nodes().await?;
    let left = told[0].expires_in.expect("alive");
    assert!(left <= lease && left > secs(3000), "{left:?}");
    let now = t.store.heartbeat(Heartbeat { now: None, ..heartbeat(1, at(0)) }).await?.expect("a member").now;
    assert!(now.duration_since(told[0].joined_at).as_secs().abs() < 600);
    let asked = t.beside.now().await?;
    assert!(now.duration_since(asked).as_secs().abs() < 600, "{asked} is that clock's time too");
    Ok(())
}
