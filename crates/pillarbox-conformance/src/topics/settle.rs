//! Settling: what each outcome changes, and that ends are final.

use pillarbox::model::{EventId, Lane, Record, Status, Token};
use pillarbox::port::{
    Change, ClaimFrom, Counts, Fence, HeldGroups, OnDone, Outcome, Settle, Settled, StoreError, Wait,
};

use crate::case::{Case, Checked, cases};
use crate::harness::Fixture;
use crate::kit::*;

pub(crate) fn cases() -> Vec<Case> {
    cases!("settle"; Nothing:
        done_sets_status_and_time_and_clears_the_lock,
        done_is_final,
        done_twice_changes_one_row_once,
        dead_is_final_but_for_an_operator,
        retry_counts_the_attempt_and_sets_time_and_error,
        a_retry_may_count_nothing,
        a_retry_waits_in_place_or_in_the_delayed_lane,
        dead_sets_status_time_and_error,
        a_death_that_counts_nothing_leaves_no_attempt,
        delay_moves_a_row_to_the_delayed_lane_and_changes_nothing_else,
        attempt_counts_and_keeps_the_claim,
        an_attempt_that_was_not_made_is_taken_back,
        what_waits_keeps_its_error_and_its_claim,
        release_gives_a_claim_back_untouched,
        release_of_an_unclaimed_row_counts_nothing,
        stored_errors_are_cut_and_hold_no_nul,
        done_rows_may_go_at_once,
        rows_with_a_message_id_stay_when_others_go,
        failed_attempts_are_remembered,
        outcomes_that_changed_nothing_are_named_by_their_place,
        an_empty_batch_is_harmless,
        a_large_batch_is_one_settle,
        times_count_from_the_databases_now,
    )
}

async fn claimed(t: &Fixture, id: &str) -> Result<Record, StoreError> {
    t.write(plain(&[id]), at(0)).await?;
    t.claim(ClaimFrom::Events, "ann", MANY, at(1)).await?;
    t.record(id).await
}

/// EVT-041, EVT-043
async fn done_sets_status_and_time_and_clears_the_lock(t: Fixture) -> Checked {
    claimed(&t, "a").await?;
    t.apply("a", Change::Done, at(5)).await?;
    let record = t.record("a").await?;
    assert_eq!((record.status, record.status.code(), record.done_at), (Status::Done, 1, Some(at(5))));
    assert_eq!((record.locked_by, record.locked_until, record.last_error), (None, None, None));
    assert_eq!((record.attempts, record.token), (1, Token(1)));
    Ok(())
}

/// EVT-043, EVT-044, EVT-045
async fn done_is_final(t: Fixture) -> Checked {
    t.write(plain(&["a"]), at(0)).await?;
    t.apply("a", Change::Done, at(5)).await?;
    for change in every_change() {
        assert!(!t.try_apply("a", change.clone(), at(9)).await?, "{change:?} changed a done row");
    }
    let record = t.record("a").await?;
    assert_eq!((record.status, record.done_at, record.attempts), (Status::Done, Some(at(5)), 0));
    assert_eq!((record.last_error, record.available_at), (None, at(0)));
    assert_eq!(t.replay(only(&["a"]), at(9)).await?, 0);
    Ok(())
}

fn every_change() -> [Change; 7] {
    let waits = Change::Waits { error: "away".to_owned() };
    [
        Change::Done,
        retry_later(secs(1)),
        dead_blocking("g"),
        Change::Delay,
        Change::Attempt { attempts: 1 },
        Change::Release { attempts: 0 },
        waits,
    ]
}

/// EVT-043
async fn done_twice_changes_one_row_once(t: Fixture) -> Checked {
    t.write(plain(&["a", "b"]), at(0)).await?;
    t.apply("a", Change::Done, at(1)).await?;
    let batch = vec![t.outcome("a", Change::Done).await?, t.outcome("b", Change::Done).await?];
    assert_eq!(t.settle(Fence::Open, batch, at(2)).await?, Settled::all_but(vec![0]));
    assert_eq!(t.record("a").await?.done_at, Some(at(1)));
    Ok(())
}

/// EVT-045
async fn dead_is_final_but_for_an_operator(t: Fixture) -> Checked {
    t.write(plain(&["a"]), at(0)).await?;
    t.apply("a", dead(), at(5)).await?;
    for change in every_change() {
        assert!(!t.try_apply("a", change.clone(), at(9)).await?, "{change:?} changed a dead row");
    }
    let record = t.record("a").await?;
    assert_eq!((record.status, record.done_at, record.attempts), (Status::Dead, Some(at(5)), 1));
    assert!(
        t.store.admin().groups(HeldGroups::first()).await?.is_empty(),
        "an outcome that changes nothing blocks nothing"
    );
    assert_eq!(t.replay(only(&["a"]), at(9)).await?, 1);
    Ok(())
}

/// EVT-041, EVT-044
async fn retry_counts_the_attempt_and_sets_time_and_error(t: Fixture) -> Checked {
    let before = claimed(&t, "a").await?;
    let counts = Counts::Made(2);
    let change = Change::Retry { delay: secs(10), error: "first".to_owned(), counts, wait: Wait::InPlace };
    t.apply("a", change, at(5)).await?;
    let record = t.record("a").await?;
    assert_eq!((record.status, record.status.code(), record.attempts), (Status::Retry, 2, 2));
    assert_eq!((record.available_at, record.done_at), (at(15), None));
    assert_eq!((record.last_error.as_deref(), record.locked_by), (Some("first"), None));
    assert_eq!((record.seq, record.slot, record.created_at), (before.seq, before.slot, at(0)));
    t.apply("a", retry_of(3, secs(1)), at(20)).await?;
    let record = t.record("a").await?;
    assert_eq!((record.attempts, record.available_at, record.last_error.as_deref()), (3, at(21), Some("no")));
    Ok(())
}

/// EVT-044
async fn a_retry_may_count_nothing(t: Fixture) -> Checked {
    claimed(&t, "a").await?;
    let (counts, wait) = (Counts::NotMade(0), Wait::InPlace);
    t.apply("a", Change::Retry { delay: secs(10), error: "no".to_owned(), counts, wait }, at(5)).await?;
    let record = t.record("a").await?;
    assert_eq!((record.status, record.attempts, record.available_at), (Status::Retry, 0, at(15)));
    assert_eq!(t.store.admin().show(id("a")).await?.expect("there").attempts, []);
    Ok(())
}

/// EVT-044, PBX-012
async fn a_retry_waits_in_place_or_in_the_delayed_lane(t: Fixture) -> Checked {
    t.write(vec![in_lane(event("a"), 64), in_slot(event("b").group("g")), in_queue(event("q"))], at(0))
        .await?;
    t.apply("a", retry(secs(9)), at(0)).await?;
    assert_eq!(t.record("a").await?.slot, Lane(64).slot());
    for (id, lane) in [("a", Lane::DELAYED), ("b", Lane::DELAYED), ("q", Lane::QUEUE)] {
        t.apply(id, retry_later(secs(9)), at(1)).await?;
        let record = t.record(id).await?;
        assert_eq!((record.slot, record.available_at), (lane.slot(), at(10)), "{id}");
    }
    assert!(t.pending().await?.is_empty());
    Ok(())
}

/// EVT-041, EVT-045, EVT-130
async fn dead_sets_status_time_and_error(t: Fixture) -> Checked {
    claimed(&t, "a").await?;
    t.apply("a", dead(), at(5)).await?;
    let record = t.record("a").await?;
    assert_eq!((record.status, record.status.code(), record.done_at), (Status::Dead, 3, Some(at(5))));
    assert_eq!((record.attempts, record.last_error.as_deref()), (1, Some("no")));
    assert_eq!((record.locked_by, record.locked_until), (None, None));
    Ok(())
}

/// EVT-045, PBX-019
async fn a_death_that_counts_nothing_leaves_no_attempt(t: Fixture) -> Checked {
    t.write(plain(&["a"]), at(0)).await?;
    let change = Change::Dead { error: "expired".to_owned(), counts: Counts::NotMade(0), blocks: None };
    t.apply("a", change, at(5)).await?;
    let shown = t.store.admin().show(id("a")).await?.expect("there");
    assert_eq!((shown.record.attempts, shown.record.last_error.as_deref()), (0, Some("expired")));
    assert_eq!(shown.attempts, []);
    Ok(())
}

/// PBX-014
async fn delay_moves_a_row_to_the_delayed_lane_and_changes_nothing_else(t: Fixture) -> Checked {
    t.write(vec![in_lane(event("a"), 64), in_queue(event("q"))], at(0)).await?;
    t.apply("a", retry(secs(60)), at(0)).await?;
    t.apply("a", Change::Delay, at(1)).await?;
    let record = t.record("a").await?;
    assert_eq!((record.slot, record.status, record.attempts), (Lane::DELAYED.slot(), Status::Retry, 1));
    assert_eq!((record.available_at, record.last_error.as_deref()), (at(60), Some("no")));
    t.apply("q", Change::Delay, at(1)).await?;
    assert_eq!(t.record("q").await?.slot, Lane::QUEUE.slot());
    Ok(())
}

/// PBX-011
async fn attempt_counts_and_keeps_the_claim(t: Fixture) -> Checked {
    let before = claimed(&t, "a").await?;
    t.apply("a", Change::Attempt { attempts: 2 }, at(2)).await?;
    let record = t.record("a").await?;
    assert_eq!((record.attempts, record.status), (2, Status::New));
    assert_eq!((record.locked_by, record.locked_until), (before.locked_by, before.locked_until));
    assert_eq!(t.store.admin().show(id("a")).await?.expect("there").attempts, [], "nothing has failed");
    Ok(())
}

/// PBX-095
async fn what_waits_keeps_its_error_and_its_claim(t: Fixture) -> Checked {
    let before = claimed(&t, "a").await?;
    t.apply("a", Change::Waits { error: "connection refused".to_owned() }, at(2)).await?;
    let record = t.record("a").await?;
    assert_eq!(record.last_error.as_deref(), Some("connection refused"));
    assert_eq!((record.attempts, record.status), (before.attempts, Status::New));
    assert_eq!((record.locked_by, record.locked_until), (before.locked_by, before.locked_until));
    assert_eq!(t.store.admin().show(id("a")).await?.expect("there").attempts, [], "no attempt has failed");
    t.apply("a", Change::Done, at(3)).await?;
    Ok(())
}

/// PBX-060
async fn an_attempt_that_was_not_made_is_taken_back(t: Fixture) -> Checked {
    claimed(&t, "a").await?;
    t.apply("a", Change::Attempt { attempts: 2 }, at(2)).await?;
    t.apply("a", Change::Release { attempts: 0 }, at(3)).await?;
    let record = t.record("a").await?;
    assert_eq!((record.attempts, record.status, record.locked_by), (0, Status::New, None));
    t.apply("a", retry(secs(1)), at(3)).await?;
    t.apply("a", Change::Attempt { attempts: 2 }, at(4)).await?;
    t.apply("a", Change::Release { attempts: 1 }, at(5)).await?;
    let record = t.record("a").await?;
    assert_eq!((record.attempts, record.status), (1, Status::Retry), "the attempt that failed stays counted");
    assert_eq!(t.store.admin().show(id("a")).await?.expect("there").attempts.len(), 1);
    Ok(())
}

/// EVT-047, PBX-013
async fn release_gives_a_claim_back_untouched(t: Fixture) -> Checked {
    claimed(&t, "a").await?;
    t.apply("a", Change::Release { attempts: 0 }, at(2)).await?;
    let record = t.record("a").await?;
    assert_eq!((record.attempts, record.status, record.locked_by), (0, Status::New, None));
    assert_eq!((record.available_at, record.token, record.last_error), (at(0), Token(1), None));
    assert_eq!(ids(&t.claim(ClaimFrom::Events, "bob", 1, at(2)).await?), ["a"], "at once");
    Ok(())
}

/// PBX-013
async fn release_of_an_unclaimed_row_counts_nothing(t: Fixture) -> Checked {
    t.write(plain(&["a"]), at(0)).await?;
    t.apply("a", retry(secs(1)), at(0)).await?;
    t.apply("a", Change::Release { attempts: 1 }, at(1)).await?;
    let record = t.record("a").await?;
    assert_eq!((record.attempts, record.status, record.available_at), (1, Status::Retry, at(1)));
    Ok(())
}

/// EVT-049
async fn stored_errors_are_cut_and_hold_no_nul(t: Fixture) -> Checked {
    t.write(plain(&["a", "b"]), at(0)).await?;
    let error = format!("\0{}", "ä".repeat(5_000));
    let (counts, wait) = (Counts::Made(1), Wait::InPlace);
    t.apply("a", Change::Retry { delay: secs(1), error: error.clone(), counts, wait }, at(0)).await?;
    t.apply("b", Change::Dead { error, counts, blocks: None }, at(0)).await?;
    for name in ["a", "b"] {
        let shown = t.store.admin().show(id(name)).await?.expect("there");
        let stored = shown.record.last_error.expect("an error");
        assert_eq!(stored.chars().count(), 4_000);
        assert!(stored.starts_with('\u{FFFD}') && stored.ends_with('ä'));
        assert_eq!(shown.attempts[0].error, stored);
    }
    Ok(())
}

/// EVT-043
async fn done_rows_may_go_at_once(t: Fixture) -> Checked {
    t.write(plain(&["a", "b"]), at(0)).await?;
    t.apply("a", retry(secs(1)), at(0)).await?;
    t.done_and_gone("a", at(1)).await?;
    assert!(t.find("a").await?.is_none());
    assert_eq!(ids(&t.pending().await?), ["b"]);
    t.write(plain(&["a"]), at(2)).await?;
    assert_eq!(
        t.store.admin().show(id("a")).await?.expect("there").attempts,
        [],
        "its attempts went with it"
    );
    Ok(())
}

/// EVT-043
async fn rows_with_a_message_id_stay_when_others_go(t: Fixture) -> Checked {
    t.write(vec![in_slot(event("a").message_id("m"))], at(0)).await?;
    t.done_and_gone("a", at(1)).await?;
    let record = t.record("a").await?;
    assert_eq!((record.status, record.done_at), (Status::Done, Some(at(1))));
    assert!(!t.write(vec![in_slot(event("b").message_id("m"))], at(2)).await?[0].fresh);
    Ok(())
}

/// EVT-044
async fn failed_attempts_are_remembered(t: Fixture) -> Checked {
    t.write(plain(&["a"]), at(0)).await?;
    t.join(7, at(0)).await?;
    let fail = |error: &str| {
        let wait = Wait::InPlace;
        Change::Retry { delay: secs(1), error: error.to_owned(), counts: Counts::Made(1), wait }
    };
    let first = vec![t.outcome("a", fail("first")).await?];
    t.settle(Fence::Node(node(7)), first, at(1)).await?;
    let claimed = t.claim(ClaimFrom::Events, "ann", 1, at(2)).await?.remove(0);
    let again = Change::Retry {
        delay: secs(1),
        error: "second".to_owned(),
        counts: Counts::Made(2),
        wait: Wait::InPlace,
    };
    t.settle(Fence::Owner(owner("ann")), vec![outcome(&claimed, again)], at(3)).await?;
    let last = Change::Dead { error: "no".to_owned(), counts: Counts::Made(3), blocks: None };
    t.apply("a", last, at(4)).await?;
    let attempts = t.store.admin().show(id("a")).await?.expect("there").attempts;
    let told: Vec<_> =
        attempts.iter().map(|one| (one.number, one.at, one.by.as_str(), one.error.as_str())).collect();
    let by = node(7).to_string();
    assert_eq!(told, [(1, at(1), by.as_str(), "first"), (2, at(3), "ann", "second"), (3, at(4), "-", "no")]);
    Ok(())
}

/// EVT-043
async fn outcomes_that_changed_nothing_are_named_by_their_place(t: Fixture) -> Checked {
    t.write(plain(&["a", "b", "c", "d"]), at(0)).await?;
    t.apply("b", Change::Done, at(1)).await?;
    let mut batch = Vec::new();
    for (id, change) in [("a", retry(secs(5))), ("b", retry(secs(5))), ("c", Change::Done), ("d", dead())] {
        batch.push(t.outcome(id, change).await?);
    }
    let gone =
        Outcome { seq: pillarbox::model::Seq(9_999_999), id: EventId::from_row("gone"), ..batch[0].clone() };
    batch.insert(2, gone);
    assert_eq!(t.settle(Fence::Open, batch, at(2)).await?, Settled::all_but(vec![1, 2]));
    let mut statuses = Vec::new();
    for id in ["a", "b", "c", "d"] {
        statuses.push(t.record(id).await?.status);
    }
    assert_eq!(statuses, [Status::Retry, Status::Done, Status::Done, Status::Dead]);
    Ok(())
}

/// EVT-043
async fn an_empty_batch_is_harmless(t: Fixture) -> Checked {
    t.join(1, at(0)).await?;
    for fence in [Fence::Open, Fence::Owner(owner("ann")), Fence::Node(node(1))] {
        assert_eq!(t.settle(fence, vec![], at(0)).await?, Settled::all_but(vec![]));
    }
    Ok(())
}

/// EVT-043
async fn a_large_batch_is_one_settle(t: Fixture) -> Checked {
    let names: Vec<String> = (0..2_500).map(|n| format!("e{n}")).collect();
    t.write(names.iter().map(|name| in_slot(event(name))).collect(), at(0)).await?;
    let mut batch = Vec::new();
    for (place, row) in t.pending().await?.iter().enumerate() {
        batch.push(outcome(row, if place % 5 == 0 { retry(secs(5)) } else { Change::Done }));
    }
    assert_eq!(t.settle(Fence::Open, batch, at(2)).await?, Settled::all_but(vec![]));
    assert_eq!(t.pending().await?.len(), 500);
    Ok(())
}

/// PBX-014
async fn times_count_from_the_databases_now(t: Fixture) -> Checked {
    t.write(plain(&["a"]), at(0)).await?;
    let outcomes = vec![t.outcome("a", retry(secs(3600))).await?].into();
    t.store
        .settle(Settle { fence: Fence::Open, outcomes, on_done: OnDone::Keep, repeats: None, now: None })
        .await?;
    let scope = pillarbox::port::Scope::Due;
    let now = t.native().fetch(pillarbox::port::Fetch { now: None, ..fetch(scope, at(0)) }).await?.now;
    let available = t.record("a").await?.available_at;
    assert!(available > now && available <= now + secs(3600));
    Ok(())
}
