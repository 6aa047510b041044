//! Settles that are repeated because their answer was lost: what the first call applied counts once.

use pillarbox::model::{Record, Status};
use pillarbox::port::{
    Change, ClaimFrom, Counts, Fence, GroupAction, OnDone, Outcome, Settle, Settled, StoreError, Wait,
};

use crate::case::{Case, Checked, cases};
use crate::harness::Fixture;
use crate::kit::*;

pub(crate) fn cases() -> Vec<Case> {
    cases!("repeated";
        Nothing:
            a_failure_that_is_settled_twice_counts_once,
            a_death_that_is_settled_twice_counts_once,
            an_attempt_that_is_settled_twice_counts_once,
            a_release_that_is_settled_twice_takes_back_one_attempt,
            under_a_claim_every_outcome_counts_once,
            a_repeated_death_spares_an_event_that_was_replayed,
            what_the_first_call_did_not_settle_the_second_does,
            other_outcomes_of_a_repeated_settle_are_applied;
    )
}

/// Settles, and settles the same again after a second as if the answer had been lost; the second answer.
async fn settled_twice(
    t: &Fixture,
    fence: Fence,
    outcomes: &[Outcome],
    now: i64,
) -> Result<Settled, StoreError> {
    let first = t.settle(fence.clone(), outcomes.to_vec(), at(now)).await?;
    assert_eq!(first, Settled::all_but(vec![]), "{outcomes:?}");
    again(t, fence, outcomes, now, now + 1).await
}

/// Settles at a time what was settled before at another.
async fn again(
    t: &Fixture,
    fence: Fence,
    outcomes: &[Outcome],
    first: i64,
    now: i64,
) -> Result<Settled, StoreError> {
    let (outcomes, on_done) = (outcomes.to_vec().into(), OnDone::Keep);
    t.store.settle(Settle { fence, outcomes, on_done, repeats: Some(at(first)), now: Some(at(now)) }).await
}

/// The row, and how many failed attempts are on record.
async fn told(t: &Fixture, name: &str) -> Result<(Record, usize), StoreError> {
    let shown = t.store.admin().show(id(name)).await?.expect("it is there");
    Ok((shown.record, shown.attempts.len()))
}

/// PBX-220
async fn a_failure_that_is_settled_twice_counts_once(t: Fixture) -> Checked {
    t.join(1, at(0)).await?;
    for (name, wait) in [("a", Wait::InPlace), ("b", Wait::Delayed)] {
        t.write(vec![in_slot(event(name).group("g"))], at(0)).await?;
        for attempt in 1..=3 {
            let (now, counts) = (i64::from(attempt) * 100, Counts::Made(attempt));
            if attempt == 2 {
                // The second attempt is counted ahead of sending.
                t.apply(name, Change::Attempt { attempts: 2 }, at(now - 1)).await?;
            }
            let failed = Change::Retry { delay: secs(0), error: "no".to_owned(), counts, wait };
            let outcomes = [t.outcome(name, failed).await?];
            let fence = if attempt == 3 { Fence::Open } else { Fence::Node(node(1)) };
            assert_eq!(settled_twice(&t, fence, &outcomes, now).await?, Settled::all_but(vec![0]), "{name}");
            let (record, history) = told(&t, name).await?;
            assert_eq!((record.attempts, history), (attempt, attempt as usize), "{name}");
            assert_eq!((record.status, record.available_at), (Status::Retry, at(now)), "{name}");
        }
    }
    Ok(())
}

/// PBX-220
async fn a_death_that_is_settled_twice_counts_once(t: Fixture) -> Checked {
    t.join(1, at(0)).await?;
    t.write(grouped("g", &["a"]), at(0)).await?;
    let outcomes = [t.outcome("a", dead_blocking("g")).await?];
    let fence = Fence::Node(node(1));
    assert_eq!(settled_twice(&t, fence, &outcomes, 5).await?, Settled::all_but(vec![0]));
    let (record, history) = told(&t, "a").await?;
    assert_eq!((record.status, record.attempts, history), (Status::Dead, 1, 1));
    Ok(())
}

/// PBX-220
async fn an_attempt_that_is_settled_twice_counts_once(t: Fixture) -> Checked {
    t.join(1, at(0)).await?;
    t.write(plain(&["a"]), at(0)).await?;
    for attempts in 1..=2 {
        let outcomes = [t.outcome("a", Change::Attempt { attempts }).await?];
        let twice = settled_twice(&t, Fence::Node(node(1)), &outcomes, 5).await?;
        assert_eq!(twice, Settled::all_but(vec![]), "it is recorded, whichever call did it");
        assert_eq!(t.record("a").await?.attempts, attempts);
    }
    Ok(())
}

/// PBX-220
async fn a_release_that_is_settled_twice_takes_back_one_attempt(t: Fixture) -> Checked {
    t.join(1, at(0)).await?;
    t.write(plain(&["a"]), at(0)).await?;
    t.apply("a", retry(secs(0)), at(1)).await?;
    t.apply("a", Change::Attempt { attempts: 2 }, at(2)).await?;
    let outcomes = [t.outcome("a", Change::Release { attempts: 1 }).await?];
    settled_twice(&t, Fence::Node(node(1)), &outcomes, 5).await?;
    assert_eq!(t.record("a").await?.attempts, 1);
    Ok(())
}

/// PBX-220
async fn under_a_claim_every_outcome_counts_once(t: Fixture) -> Checked {
    let changes = [
        (Change::Attempt { attempts: 2 }, 2, 0, vec![]),
        (retry(secs(0)), 1, 1, vec![0]),
        (dead(), 1, 1, vec![0]),
        (Change::Release { attempts: 0 }, 0, 0, vec![0]),
    ];
    for (number, (change, attempts, failed, stale)) in changes.into_iter().enumerate() {
        let name = format!("e{number}");
        t.write(vec![in_queue(event(&name))], at(0)).await?;
        // The messages of the rounds before are claimed, too.
        let rows = t.claim(ClaimFrom::Queue, "ann", MANY, at(1 + 60 * number as i64)).await?;
        let row = rows.into_iter().find(|row| row.id == id(&name)).expect("it is claimed");
        let outcomes = [outcome(&row, change.clone())];
        let now = 5 + 60 * number as i64;
        let twice = settled_twice(&t, Fence::Owner(owner("ann")), &outcomes, now).await?;
        assert_eq!(twice, Settled::all_but(stale), "{change:?}");
        let (record, history) = told(&t, &name).await?;
        assert_eq!((record.attempts, history), (attempts, failed), "{change:?}");
    }
    Ok(())
}

/// PBX-220: the event that blocks its group is replayed in its place, under its number.
async fn a_repeated_death_spares_an_event_that_was_replayed(t: Fixture) -> Checked {
    t.join(1, at(0)).await?;
    t.write(grouped("g", &["a"]), at(0)).await?;
    let death = t.outcome("a", dead_blocking("g")).await?;
    let fence = || Fence::Node(node(1));
    assert!(t.settle(fence(), vec![death.clone()], at(5)).await?.stale.is_empty());
    assert!(t.change_group("g", GroupAction::Unblock, at(6)).await?);
    assert_eq!(t.record("a").await?.seq, death.seq, "otherwise its number would be enough");
    assert_eq!(again(&t, fence(), &[death], 5, 7).await?, Settled::all_but(vec![0]));
    let (record, history) = told(&t, "a").await?;
    assert_eq!((record.status, record.attempts, history), (Status::New, 0, 1));
    assert!(t.held_group("g").await?.is_none());
    Ok(())
}

/// PBX-220
async fn what_the_first_call_did_not_settle_the_second_does(t: Fixture) -> Checked {
    t.join(1, at(0)).await?;
    t.write(grouped("g", &["a", "b", "c"]), at(0)).await?;
    let (failed, died) = (t.outcome("a", retry(secs(9))).await?, t.outcome("b", dead()).await?);
    let done = t.outcome("c", Change::Done).await?;
    let settled = again(&t, Fence::Node(node(1)), &[failed, died, done], 5, 7).await?;
    assert_eq!(settled, Settled::all_but(vec![]));
    let (a, b, c) = (t.record("a").await?, t.record("b").await?, t.record("c").await?);
    assert_eq!((a.status, a.attempts, a.available_at), (Status::Retry, 1, at(16)));
    assert_eq!((b.status, b.attempts, c.status), (Status::Dead, 1, Status::Done));
    Ok(())
}

/// PBX-220: a row that has just become available is refused only to failures.
async fn other_outcomes_of_a_repeated_settle_are_applied(t: Fixture) -> Checked {
    t.join(1, at(0)).await?;
    let waits = Change::Waits { error: "away".to_owned() };
    let others = [
        Change::Done,
        Change::Delay,
        Change::Attempt { attempts: 1 },
        Change::Release { attempts: 0 },
        waits,
        retry(secs(9)),
        dead(),
    ];
    let mut outcomes = Vec::new();
    for (number, change) in others.into_iter().enumerate() {
        let name = format!("e{number}");
        t.write(plain(&[name.as_str()]), at(6)).await?;
        outcomes.push(t.outcome(&name, change).await?);
    }
    let settled = again(&t, Fence::Node(node(1)), &outcomes, 5, 7).await?;
    assert_eq!(settled, Settled::all_but(vec![5, 6]));
    Ok(())
}
