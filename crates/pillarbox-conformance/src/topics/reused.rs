//! Numbers that are given again, after a failover or a restore: an outcome of the event that had one before changes nothing.

use pillarbox::model::{EventId, NewRow, Row, Status};
use pillarbox::port::{Change, ClaimFrom, Fence, HeldGroups, OnDone, Outcome, Settle, Settled, StoreError};

use crate::case::{Case, Checked, cases};
use crate::harness::Fixture;
use crate::kit::*;

pub(crate) fn cases() -> Vec<Case> {
    cases!("reused";
        Nothing:
            an_outcome_of_another_event_with_this_number_changes_nothing,
            a_node_ends_only_the_events_that_it_names,
            an_owner_ends_only_the_events_that_it_names,
            outcomes_that_swap_their_numbers_change_nothing,
            of_two_events_with_one_number_the_one_that_is_there_is_settled,
            ids_are_compared_by_bytes;
        Transactions:
            a_transaction_ends_only_the_events_that_it_names,
    )
}

/// Every kind of outcome.
fn every_change() -> [Change; 8] {
    [
        Change::Done,
        retry(secs(1)),
        retry_later(secs(1)),
        dead_blocking("g"),
        Change::Delay,
        Change::Attempt { attempts: 1 },
        Change::Release { attempts: 0 },
        Change::Extend { lease: secs(900) },
    ]
}

/// The outcome of an event that had the number of this row before.
fn of_another(row: &Row, change: Change) -> Outcome {
    Outcome { id: id("another"), ..outcome(row, change) }
}

fn settle(fence: Fence, outcomes: Vec<Outcome>, on_done: OnDone) -> Settle {
    Settle { fence, outcomes: outcomes.into(), on_done, repeats: None, now: Some(at(5)) }
}

/// One with and one without a message id: what is done is kept, or deleted.
fn rows(make: impl Fn(pillarbox::model::EventBuilder) -> NewRow) -> Vec<NewRow> {
    vec![make(event("a").group("g")), make(event("b").group("g").message_id("m"))]
}

async fn as_they_are(t: &Fixture) -> Result<String, StoreError> {
    let mut told = String::new();
    for name in ["a", "b"] {
        let shown = t.store.admin().show(id(name)).await?.expect("it is there");
        told += &format!("{:?} {:?};", shown.record, shown.attempts);
    }
    Ok(told + &format!("{:?}", t.store.admin().groups(HeldGroups::first()).await?))
}

/// Settles outcomes of another event with the numbers of these rows, in every way.
async fn changes_nothing(t: &Fixture, fence: &Fence, rows: &[Row]) -> Checked {
    let before = as_they_are(t).await?;
    for (change, on_done) in every_change()
        .into_iter()
        .flat_map(|change| [(change.clone(), OnDone::Keep), (change, OnDone::Delete)])
    {
        let outcomes = rows.iter().map(|row| of_another(row, change.clone())).collect();
        let settled = t.store.settle(settle(fence.clone(), outcomes, on_done)).await?;
        let told = format!("{change:?} {on_done:?}");
        assert_eq!(settled, Settled { reused: true, ..Settled::all_but(vec![0, 1]) }, "{told}");
        assert_eq!(as_they_are(t).await?, before, "{told}");
    }
    Ok(())
}

/// The events themselves are settled beside outcomes of others with numbers of their own.
async fn are_done(t: &Fixture, fence: Fence, rows: &[Row], on_done: OnDone) -> Checked {
    let mut outcomes = vec![of_another(&rows[0], Change::Done)];
    outcomes.extend(rows[1..].iter().map(|row| outcome(row, Change::Done)));
    let settled = t.store.settle(settle(fence, outcomes, on_done)).await?;
    assert_eq!(settled, Settled { reused: true, ..Settled::all_but(vec![0]) });
    assert_eq!(t.record("a").await?.status, Status::New);
    assert_eq!(t.record("b").await?.status, Status::Done);
    Ok(())
}

/// PBX-011
async fn an_outcome_of_another_event_with_this_number_changes_nothing(t: Fixture) -> Checked {
    t.write(rows(in_slot), at(0)).await?;
    let rows = t.claim(ClaimFrom::Events, "ann", MANY, at(1)).await?;
    changes_nothing(&t, &Fence::Open, &rows).await?;
    are_done(&t, Fence::Open, &rows, OnDone::Keep).await
}

/// PBX-011
async fn a_node_ends_only_the_events_that_it_names(t: Fixture) -> Checked {
    t.write(rows(in_slot), at(0)).await?;
    t.join(1, at(0)).await?;
    let (fence, rows) = (Fence::Node(node(1)), t.pending().await?);
    changes_nothing(&t, &fence, &rows).await?;
    are_done(&t, fence, &rows, OnDone::Delete).await
}

/// PBX-011
async fn an_owner_ends_only_the_events_that_it_names(t: Fixture) -> Checked {
    t.write(rows(in_queue), at(0)).await?;
    let rows = t.claim(ClaimFrom::Queue, "ann", MANY, at(1)).await?;
    let fence = Fence::Owner(owner("ann"));
    changes_nothing(&t, &fence, &rows).await?;
    are_done(&t, fence, &rows, OnDone::Delete).await
}

/// PBX-011: number and id belong together, not each to some row of the batch.
async fn outcomes_that_swap_their_numbers_change_nothing(t: Fixture) -> Checked {
    t.write(plain(&["a", "b"]), at(0)).await?;
    t.join(1, at(0)).await?;
    let rows = t.pending().await?;
    let swapped = |change: &Change| {
        let one = Outcome { id: rows[1].id.clone(), ..outcome(&rows[0], change.clone()) };
        vec![one, Outcome { id: rows[0].id.clone(), ..outcome(&rows[1], change.clone()) }]
    };
    for (change, on_done) in [
        (Change::Done, OnDone::Keep),
        (Change::Done, OnDone::Delete),
        (dead(), OnDone::Keep),
        (retry(secs(1)), OnDone::Keep),
    ] {
        let settled = t.store.settle(settle(Fence::Node(node(1)), swapped(&change), on_done)).await?;
        assert_eq!(
            settled,
            Settled { reused: true, ..Settled::all_but(vec![0, 1]) },
            "{change:?} {on_done:?}"
        );
    }
    assert_eq!(ids(&t.pending().await?), ["a", "b"]);
    Ok(())
}

/// PBX-011: the outcome from before the failover and the one from after it may go in one batch.
async fn of_two_events_with_one_number_the_one_that_is_there_is_settled(t: Fixture) -> Checked {
    t.join(1, at(0)).await?;
    for (round, on_done) in [("a", OnDone::Keep), ("b", OnDone::Delete)] {
        t.write(plain(&[round]), at(0)).await?;
        let row = t.pending().await?.remove(0);
        let outcomes = vec![of_another(&row, Change::Done), outcome(&row, Change::Done)];
        let settled = t.store.settle(settle(Fence::Node(node(1)), outcomes, on_done)).await?;
        assert_eq!(settled.stale, [0]);
        assert!(t.pending().await?.is_empty(), "{on_done:?}");
    }
    Ok(())
}

/// PBX-011
async fn ids_are_compared_by_bytes(t: Fixture) -> Checked {
    t.write(plain(&["a"]), at(0)).await?;
    t.join(1, at(0)).await?;
    let row = t.pending().await?.remove(0);
    for another in ["A", "a ", " a", "\u{e4}", "a%"] {
        for change in [Change::Done, retry(secs(1)), dead()] {
            let outcomes = vec![Outcome { id: EventId::from_row(another), ..outcome(&row, change) }];
            let settled = t.store.settle(settle(Fence::Node(node(1)), outcomes, OnDone::Keep)).await?;
            assert_eq!(settled.stale, [0], "{another:?}");
        }
    }
    t.apply("a", Change::Done, at(9)).await?;
    Ok(())
}

/// PBX-011, PBX-025
async fn a_transaction_ends_only_the_events_that_it_names(t: Fixture) -> Checked {
    t.write(rows(in_queue), at(0)).await?;
    let rows = t.claim(ClaimFrom::Queue, "ann", MANY, at(1)).await?;
    let before = as_they_are(&t).await?;
    for change in every_change() {
        let outcomes = rows.iter().map(|row| of_another(row, change.clone())).collect();
        let request = settle(Fence::Owner(owner("ann")), outcomes, OnDone::Delete);
        let settled = t.work_with(|work| work.settle = Some(request)).await?.settled;
        assert_eq!(settled, Some(Settled { reused: true, ..Settled::all_but(vec![0, 1]) }), "{change:?}");
        assert_eq!(as_they_are(&t).await?, before, "{change:?}");
    }
    Ok(())
}
