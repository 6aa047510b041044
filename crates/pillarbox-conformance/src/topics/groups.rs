//! Groups that are held back: blocked behind a dead head, or paused by an operator.

use pillarbox::model::{Status, Token, Written};
use pillarbox::port::{
    Fence, GroupAction, GroupState, Heartbeat, HeldGroup, HeldGroups, Outcome, Settled, StoreError, Write,
};

use crate::case::{Case, Checked, cases};
use crate::harness::Fixture;
use crate::kit::*;

pub(crate) fn cases() -> Vec<Case> {
    cases!("groups";
    Nothing:
        a_dead_head_blocks_its_group,
        the_first_dead_event_keeps_the_block,
        a_head_that_dies_in_a_paused_group_blocks_it_on_resume,
        pausing_a_blocked_group_keeps_what_blocks_it,
        unblock_brings_the_head_back_in_its_place,
        skip_leaves_the_head_dead,
        what_does_not_fit_the_state_changes_nothing,
        every_change_is_counted_and_recorded,
        a_heartbeat_tells_the_first_page;
    AnyKind:
        a_group_is_paused_once,
        a_paused_group_is_resumed,
        groups_come_in_the_order_of_their_keys,
        groups_come_in_pages,
        groups_are_looked_up_by_name;
    )
}

async fn blocked(t: &Fixture) -> Result<(), StoreError> {
    t.write(grouped("g", &["a", "b", "c"]), at(0)).await?;
    t.apply("a", dead_blocking("g"), at(5)).await
}

async fn epoch(t: &Fixture) -> Result<i64, StoreError> {
    let join = pillarbox::port::Register {
        node: node(99),
        label: String::new(),
        reads: pillarbox::port::ReadScope::Share,
        lease: LEASE,
        now: Some(at(0)),
    };
    let joined = t.store.register(join).await?;
    t.store.leave(node(99)).await?;
    Ok(joined.groups.expect("a join tells all").epoch)
}

/// PBX-010
async fn a_dead_head_blocks_its_group(t: Fixture) -> Checked {
    blocked(&t).await?;
    let expected = HeldGroup {
        group: group("g"),
        state: GroupState::Blocked,
        event: Some(id("a")),
        reason: Some("no".to_owned()),
        by: "engine".to_owned(),
        since: at(5),
    };
    assert_eq!(t.store.admin().groups(HeldGroups::first()).await?, [expected]);
    t.write(grouped("h", &["x"]), at(6)).await?;
    t.apply("x", dead(), at(6)).await?;
    assert_eq!(t.held_group("h").await?, None, "only where it was asked for");
    Ok(())
}

/// PBX-010
async fn the_first_dead_event_keeps_the_block(t: Fixture) -> Checked {
    blocked(&t).await?;
    let before = (t.held_group("g").await?, epoch(&t).await?);
    t.apply("b", dead_blocking("g"), at(6)).await?;
    assert_eq!((t.held_group("g").await?, epoch(&t).await?), before);
    assert_eq!(t.record("b").await?.status, Status::Dead);
    Ok(())
}

/// PBX-010
async fn a_head_that_dies_in_a_paused_group_blocks_it_on_resume(t: Fixture) -> Checked {
    t.write(grouped("g", &["a", "b"]), at(0)).await?;
    t.change_group("g", GroupAction::Pause, at(1)).await?;
    t.apply("a", dead_blocking("g"), at(2)).await?;
    let held = t.held_group("g").await?.expect("paused");
    assert_eq!((held.state, held.event, held.by.as_str()), (GroupState::Paused, Some(id("a")), "ann"));
    assert!(t.change_group("g", GroupAction::Resume, at(3)).await?);
    let held = t.held_group("g").await?.expect("blocked");
    assert_eq!((held.state, held.event), (GroupState::Blocked, Some(id("a"))));
    Ok(())
}

/// PBX-010
async fn a_group_is_paused_once(t: Fixture) -> Checked {
    assert!(t.change_group("g", GroupAction::Pause, at(1)).await?);
    let expected = HeldGroup {
        group: group("g"),
        state: GroupState::Paused,
        event: None,
        reason: Some("because".to_owned()),
        by: "ann".to_owned(),
        since: at(1),
    };
    assert!(!t.change_group("g", GroupAction::Pause, at(2)).await?);
    assert_eq!(t.store.admin().groups(HeldGroups::first()).await?, [expected]);
    Ok(())
}

/// PBX-010
async fn a_paused_group_is_resumed(t: Fixture) -> Checked {
    t.change_group("g", GroupAction::Pause, at(1)).await?;
    t.change_group("h", GroupAction::Pause, at(1)).await?;
    assert!(t.change_group("g", GroupAction::Resume, at(2)).await?);
    assert!(!t.change_group("g", GroupAction::Resume, at(3)).await?);
    assert_eq!(
        (t.held_group("g").await?, t.store.admin().groups(HeldGroups::first()).await?.len()),
        (None, 1)
    );
    Ok(())
}

/// PBX-010
async fn pausing_a_blocked_group_keeps_what_blocks_it(t: Fixture) -> Checked {
    blocked(&t).await?;
    assert!(t.change_group("g", GroupAction::Pause, at(6)).await?);
    let held = t.held_group("g").await?.expect("paused");
    assert_eq!((held.state, held.event), (GroupState::Paused, Some(id("a"))));
    assert_eq!((held.by.as_str(), held.since, held.reason.as_deref()), ("ann", at(6), Some("because")));
    assert!(t.change_group("g", GroupAction::Resume, at(7)).await?);
    let held = t.held_group("g").await?.expect("blocked again");
    assert_eq!((held.state, held.event, held.since), (GroupState::Blocked, Some(id("a")), at(7)));
    Ok(())
}

/// PBX-010
async fn unblock_brings_the_head_back_in_its_place(t: Fixture) -> Checked {
    blocked(&t).await?;
    let before = t.record("a").await?;
    assert!(t.change_group("g", GroupAction::Unblock, at(9)).await?);
    let after = t.record("a").await?;
    assert_eq!((after.seq, after.slot, after.status), (before.seq, before.slot, Status::New));
    assert_eq!((after.attempts, after.available_at, after.done_at, after.last_error), (0, at(9), None, None));
    assert_eq!(t.held_group("g").await?, None);
    assert_eq!(ids(&t.pending().await?), ["a", "b", "c"]);
    Ok(())
}

/// PBX-010
async fn skip_leaves_the_head_dead(t: Fixture) -> Checked {
    blocked(&t).await?;
    assert!(t.change_group("g", GroupAction::Skip, at(9)).await?);
    assert_eq!((t.held_group("g").await?, t.record("a").await?.status), (None, Status::Dead));
    assert_eq!(ids(&t.pending().await?), ["b", "c"]);
    Ok(())
}

/// PBX-010
async fn what_does_not_fit_the_state_changes_nothing(t: Fixture) -> Checked {
    blocked(&t).await?;
    t.change_group("p", GroupAction::Pause, at(6)).await?;
    let before = (
        t.store.admin().groups(HeldGroups::first()).await?,
        epoch(&t).await?,
        t.store.admin().audit(99).await?,
    );
    for (group, action) in [
        ("free", GroupAction::Resume),
        ("free", GroupAction::Unblock),
        ("free", GroupAction::Skip),
        ("p", GroupAction::Pause),
        ("p", GroupAction::Unblock),
        ("p", GroupAction::Skip),
        ("g", GroupAction::Resume),
    ] {
        assert!(!t.change_group(group, action, at(7)).await?, "{action:?} {group}");
    }
    let after = (
        t.store.admin().groups(HeldGroups::first()).await?,
        epoch(&t).await?,
        t.store.admin().audit(99).await?,
    );
    assert_eq!(after, before);
    assert_eq!(t.record("a").await?.status, Status::Dead);
    Ok(())
}

/// PBX-022
async fn groups_come_in_the_order_of_their_keys(t: Fixture) -> Checked {
    for key in ["b", "a", "B", "ä", "c"] {
        t.change_group(key, GroupAction::Pause, at(1)).await?;
    }
    let groups = t.store.admin().groups(HeldGroups::first()).await?;
    assert_eq!(groups.iter().map(|held| held.group.as_str()).collect::<Vec<_>>(), ["B", "a", "b", "c", "ä"]);
    Ok(())
}

/// PBX-100
async fn groups_come_in_pages(t: Fixture) -> Checked {
    let keys = ["B", "a", "a'b", "a\\b", "b", "c", "ä"];
    for key in keys {
        t.change_group(key, GroupAction::Pause, at(1)).await?;
    }
    for limit in 1..=keys.len() + 1 {
        let mut next = Some(HeldGroups { after: None, limit });
        let mut seen = Vec::new();
        while let Some(request) = next {
            let page = t.store.admin().groups(request.clone()).await?;
            assert!(page.len() <= limit);
            next = request.following(&page);
            seen.extend(page.into_iter().map(|held| held.group.to_string()));
        }
        assert_eq!(seen, keys, "pages of {limit}");
    }
    let after = HeldGroups { after: Some(group("bb")), limit: 1 };
    assert_eq!(t.store.admin().groups(after).await?[0].group, group("c"), "after one that is not there");
    assert!(t.store.admin().groups(HeldGroups { after: None, limit: 0 }).await?.is_empty());
    Ok(())
}

/// PBX-100
async fn a_heartbeat_tells_the_first_page(t: Fixture) -> Checked {
    let keys: Vec<String> = (0..=HeldGroups::PAGE).map(|n| format!("g{n:05}")).collect();
    let rows = keys.iter().map(|key| in_slot(event(key).group(key.as_str()))).collect();
    let written = t.store.write(Write { rows, now: Some(at(0)) }).await?;
    let blocks = |(key, written): (&String, &Written)| Outcome {
        seq: written.seq,
        id: id(key),
        token: Token::default(),
        change: dead_blocking(key),
    };
    let outcomes: Vec<Outcome> = keys.iter().zip(&written).map(blocks).collect();
    for some in outcomes.chunks(50) {
        assert_eq!(t.settle(Fence::Open, some.to_vec(), at(1)).await?, Settled::all_but(Vec::new()));
    }
    let told = t.join(1, at(2)).await?.groups.expect("a join tells");
    let told: Vec<&str> = told.held.iter().map(|held| held.group.as_str()).collect();
    assert_eq!(told, keys[..HeldGroups::PAGE]);
    let renewed = t
        .heartbeat_with(Heartbeat { groups_seen: -1, ..heartbeat(1, at(3)) })
        .await?
        .groups
        .expect("a new list");
    assert_eq!(renewed.held.len(), HeldGroups::PAGE);
    Ok(())
}

/// PBX-100
async fn groups_are_looked_up_by_name(t: Fixture) -> Checked {
    for key in ["b", "a", "c'd"] {
        t.change_group(key, GroupAction::Pause, at(1)).await?;
    }
    let held = t.store.admin().held(["c'd", "free", "a", "a", "A"].map(group).to_vec()).await?;
    let held: Vec<_> = held.iter().map(|held| (held.group.as_str(), held.state, held.since)).collect();
    assert_eq!(held, [("a", GroupState::Paused, at(1)), ("c'd", GroupState::Paused, at(1))]);
    assert!(t.store.admin().held(Vec::new()).await?.is_empty());
    Ok(())
}

/// PBX-010
async fn every_change_is_counted_and_recorded(t: Fixture) -> Checked {
    let mut last = epoch(&t).await?;
    for (round, skip) in [(1, GroupAction::Skip), (2, GroupAction::Unblock)] {
        t.write(grouped("g", &[format!("e{round}").as_str()]), at(0)).await?;
        t.apply(&format!("e{round}"), dead_blocking("g"), at(round)).await?;
        for action in [None, Some(GroupAction::Pause), Some(GroupAction::Resume), Some(skip)] {
            if let Some(action) = action {
                assert!(t.change_group("g", action, at(round)).await?);
            }
            let next = epoch(&t).await?;
            assert!(next > last, "{action:?}");
            last = next;
        }
    }
    let audit = t.store.admin().audit(99).await?;
    let told: Vec<_> =
        audit.iter().rev().map(|entry| (entry.action.as_str(), entry.target.as_str())).collect();
    let expected = ["pause", "resume", "skip", "pause", "resume", "unblock"].map(|action| (action, "g"));
    assert_eq!(told, expected);
    assert!(audit.iter().all(|entry| entry.by == "ann"));
    assert_eq!(audit[0].at, at(2));
    Ok(())
}
