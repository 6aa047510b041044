//! Fencing: who has lost a node or a claim changes nothing more.

use pillarbox::model::{Status, Token};
use pillarbox::port::{Change, ClaimFrom, Fence, HeldGroups, Outcome, Settled};

use crate::case::{Case, Checked, cases};
use crate::harness::Fixture;
use crate::kit::*;

pub(crate) fn cases() -> Vec<Case> {
    cases!("fence"; Nothing:
        a_member_settles,
        a_node_that_never_joined_changes_nothing,
        an_evicted_node_changes_nothing,
        a_node_that_left_changes_nothing,
        an_expired_node_settles_until_it_is_evicted,
        a_claim_is_settled_by_its_owner_only,
        an_old_token_settles_nothing,
        a_claim_that_ran_out_is_settled_while_nobody_took_it,
        a_claim_that_was_taken_over_settles_nothing,
        a_settled_claim_is_no_longer_held,
        a_row_that_moved_is_not_found_by_its_old_number,
    )
}

/// PBX-011
async fn a_member_settles(t: Fixture) -> Checked {
    t.write(plain(&["a"]), at(0)).await?;
    t.join(1, at(0)).await?;
    let batch = vec![t.outcome("a", Change::Done).await?];
    assert_eq!(t.settle(Fence::Node(node(1)), batch, at(1)).await?, Settled::all_but(vec![]));
    assert_eq!(t.record("a").await?.status, Status::Done);
    Ok(())
}

async fn changes_nothing(t: &Fixture, number: u128, now: i64) -> Checked {
    let before = t.record("a").await?;
    let batch = vec![
        t.outcome("a", Change::Done).await?,
        t.outcome("b", dead_blocking("g")).await?,
        t.outcome("c", retry(secs(1))).await?,
    ];
    let settled = t.settle(Fence::Node(node(number)), batch, at(now)).await?;
    assert_eq!(settled, Settled::lost(3));
    assert_eq!(t.pending().await?.len(), 3);
    let after = t.record("a").await?;
    assert_eq!(
        (after.status, after.attempts, after.done_at),
        (before.status, before.attempts, before.done_at)
    );
    assert!(t.store.admin().groups(HeldGroups::first()).await?.is_empty());
    Ok(())
}

/// PBX-011
async fn a_node_that_never_joined_changes_nothing(t: Fixture) -> Checked {
    t.write(plain(&["a", "b", "c"]), at(0)).await?;
    t.join(1, at(0)).await?;
    changes_nothing(&t, 2, 1).await
}

/// PBX-011
async fn an_evicted_node_changes_nothing(t: Fixture) -> Checked {
    t.write(plain(&["a", "b", "c"]), at(0)).await?;
    t.join(1, at(0)).await?;
    t.join(2, at(30)).await?;
    changes_nothing(&t, 1, 31).await
}

/// PBX-011
async fn a_node_that_left_changes_nothing(t: Fixture) -> Checked {
    t.write(plain(&["a", "b", "c"]), at(0)).await?;
    t.join(1, at(0)).await?;
    t.store.leave(node(1)).await?;
    changes_nothing(&t, 1, 1).await
}

/// PBX-011
async fn an_expired_node_settles_until_it_is_evicted(t: Fixture) -> Checked {
    t.write(plain(&["a"]), at(0)).await?;
    t.join(1, at(0)).await?;
    let batch = vec![t.outcome("a", Change::Done).await?];
    assert!(t.settle(Fence::Node(node(1)), batch, at(500)).await?.held, "its row's being there is the fence");
    assert_eq!(t.record("a").await?.done_at, Some(at(500)));
    Ok(())
}

/// EVT-047, PBX-011
async fn a_claim_is_settled_by_its_owner_only(t: Fixture) -> Checked {
    t.write(plain(&["a"]), at(0)).await?;
    let row = t.claim(ClaimFrom::Events, "ann", 1, at(0)).await?.remove(0);
    for change in [
        Change::Done,
        dead_blocking("g"),
        retry(secs(1)),
        Change::Release { attempts: 0 },
        Change::Attempt { attempts: 1 },
        Change::Delay,
    ] {
        let settled = t.settle(Fence::Owner(owner("bob")), vec![outcome(&row, change)], at(1)).await?;
        assert_eq!(settled, Settled::all_but(vec![0]));
    }
    let record = t.record("a").await?;
    assert_eq!((record.status, record.locked_by.as_deref()), (Status::New, Some("ann")));
    let settled = t.settle(Fence::Owner(owner("ann")), vec![outcome(&row, Change::Done)], at(1)).await?;
    assert_eq!(settled.stale, NONE);
    assert_eq!(t.record("a").await?.status, Status::Done);
    Ok(())
}

/// EVT-086, PBX-011
async fn an_old_token_settles_nothing(t: Fixture) -> Checked {
    t.write(plain(&["a"]), at(0)).await?;
    let first = t.claim(ClaimFrom::Events, "ann", 1, at(0)).await?.remove(0);
    let second = t.claim(ClaimFrom::Events, "ann", 1, at(30)).await?.remove(0);
    let stale = |token| vec![Outcome { token, ..outcome(&first, Change::Done) }];
    for token in [first.token, Token(0), Token(3)] {
        assert_eq!(t.settle(Fence::Owner(owner("ann")), stale(token), at(31)).await?.stale, [0], "{token:?}");
    }
    assert_eq!(t.settle(Fence::Owner(owner("ann")), stale(second.token), at(31)).await?.stale, NONE);
    Ok(())
}

/// EVT-086
async fn a_claim_that_ran_out_is_settled_while_nobody_took_it(t: Fixture) -> Checked {
    t.write(plain(&["a"]), at(0)).await?;
    let row = t.claim(ClaimFrom::Events, "ann", 1, at(0)).await?.remove(0);
    let settled = t.settle(Fence::Owner(owner("ann")), vec![outcome(&row, Change::Done)], at(500)).await?;
    assert_eq!(settled.stale, NONE);
    Ok(())
}

/// EVT-086, PBX-011
async fn a_claim_that_was_taken_over_settles_nothing(t: Fixture) -> Checked {
    t.write(plain(&["a"]), at(0)).await?;
    let old = t.claim(ClaimFrom::Events, "ann", 1, at(0)).await?.remove(0);
    let new = t.claim(ClaimFrom::Events, "bob", 1, at(30)).await?.remove(0);
    let late = t.settle(Fence::Owner(owner("ann")), vec![outcome(&old, dead())], at(31)).await?;
    assert_eq!(late.stale, [0]);
    assert_eq!(t.record("a").await?.locked_by.as_deref(), Some("bob"));
    let settled = t.settle(Fence::Owner(owner("bob")), vec![outcome(&new, Change::Done)], at(32)).await?;
    assert_eq!(settled.stale, NONE);
    Ok(())
}

/// PBX-011
async fn a_settled_claim_is_no_longer_held(t: Fixture) -> Checked {
    t.write(plain(&["a"]), at(0)).await?;
    let row = t.claim(ClaimFrom::Events, "ann", 1, at(0)).await?.remove(0);
    for (change, stale) in [(retry(secs(0)), vec![]), (Change::Done, vec![0])] {
        let settled = t.settle(Fence::Owner(owner("ann")), vec![outcome(&row, change)], at(1)).await?;
        assert_eq!(settled.stale, stale);
    }
    assert_eq!(t.record("a").await?.status, Status::Retry);
    Ok(())
}

/// PBX-011
async fn a_row_that_moved_is_not_found_by_its_old_number(t: Fixture) -> Checked {
    t.write(plain(&["a", "b"]), at(0)).await?;
    let old = t.outcome("a", Change::Done).await?;
    t.apply("a", dead(), at(1)).await?;
    t.replay(only(&["a"]), at(2)).await?;
    assert_eq!(t.settle(Fence::Open, vec![old], at(3)).await?.stale, [0]);
    assert_eq!(t.record("a").await?.status, Status::New, "a settle from before the replay must not end it");
    Ok(())
}
