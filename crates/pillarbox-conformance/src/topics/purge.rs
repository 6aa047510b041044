//! Purging: ended rows past their time, a batch a call, and nothing else.

use pillarbox::port::{Change, GroupAction, Purge, PurgeStatus, Select, StoreError};

use crate::case::{Case, Checked, cases};
use crate::harness::Fixture;
use crate::kit::*;

pub(crate) fn cases() -> Vec<Case> {
    cases!("purge"; Nothing:
        done_rows_go_by_when_they_were_done,
        dead_rows_go_by_when_they_died,
        each_status_is_purged_for_itself,
        a_row_of_exactly_that_age_stays,
        a_batch_is_bounded_and_counted,
        pending_rows_are_never_purged_as_ended,
        a_replayed_row_is_not_purged,
        by_age_alone_everything_goes,
        attempts_go_with_their_row,
        ages_are_judged_by_the_databases_clock,
        the_dead_head_of_a_blocked_group_stays,
        purges_in_turn_delete_each_row_once,
    )
}

async fn purge(t: &Fixture, status: PurgeStatus, older_than: u64, now: i64) -> Result<u64, StoreError> {
    let older_than = secs(older_than);
    t.store.admin().purge(Purge { status, older_than, limit: MANY, now: Some(at(now)) }).await
}

async fn left(t: &Fixture) -> Result<u64, StoreError> {
    t.store.admin().count(Select::default()).await
}

/// EVT-130
async fn done_rows_go_by_when_they_were_done(t: Fixture) -> Checked {
    t.write(plain(&["a", "b"]), at(0)).await?;
    t.apply("a", Change::Done, at(10)).await?;
    t.apply("b", Change::Done, at(20)).await?;
    assert_eq!(purge(&t, PurgeStatus::Done, 10, 25).await?, 1);
    assert!(t.find("a").await?.is_none() && t.find("b").await?.is_some());
    Ok(())
}

/// EVT-130
async fn dead_rows_go_by_when_they_died(t: Fixture) -> Checked {
    t.write(plain(&["a"]), at(0)).await?;
    t.apply("a", dead(), at(1_000)).await?;
    assert_eq!(purge(&t, PurgeStatus::Dead, 500, 1_400).await?, 0, "it waited long, but died just now");
    assert_eq!(purge(&t, PurgeStatus::Dead, 500, 1_501).await?, 1);
    Ok(())
}

/// EVT-130
async fn each_status_is_purged_for_itself(t: Fixture) -> Checked {
    t.write(plain(&["done", "dead"]), at(0)).await?;
    t.apply("done", Change::Done, at(1)).await?;
    t.apply("dead", dead(), at(1)).await?;
    assert_eq!(purge(&t, PurgeStatus::Done, 5, 99).await?, 1);
    assert!(t.find("dead").await?.is_some());
    assert_eq!(purge(&t, PurgeStatus::Dead, 5, 99).await?, 1);
    Ok(())
}

/// EVT-130
async fn a_row_of_exactly_that_age_stays(t: Fixture) -> Checked {
    t.write(plain(&["a"]), at(0)).await?;
    t.apply("a", Change::Done, at(10)).await?;
    assert_eq!(purge(&t, PurgeStatus::Done, 10, 20).await?, 0);
    let just_later = at(20) + jiff::SignedDuration::from_micros(1);
    let older_than = secs(10);
    let purge = Purge { status: PurgeStatus::Done, older_than, limit: 9, now: Some(just_later) };
    assert_eq!(t.store.admin().purge(purge).await?, 1);
    Ok(())
}

/// EVT-130, EVT-132
async fn a_batch_is_bounded_and_counted(t: Fixture) -> Checked {
    let names: Vec<String> = (0..25).map(|n| format!("e{n}")).collect();
    t.write(names.iter().map(|name| in_slot(event(name))).collect(), at(0)).await?;
    let batch = t.pending().await?.iter().map(|row| outcome(row, Change::Done)).collect();
    t.settle(pillarbox::port::Fence::Open, batch, at(1)).await?;
    let mut deleted = Vec::new();
    while deleted.last() != Some(&5) {
        let older_than = secs(1);
        let purge = Purge { status: PurgeStatus::Done, older_than, limit: 10, now: Some(at(9)) };
        deleted.push(t.store.admin().purge(purge).await?);
        assert!(deleted.len() < 4, "{deleted:?}");
    }
    assert_eq!((deleted, left(&t).await?), (vec![10, 10, 5], 0));
    Ok(())
}

/// EVT-130
async fn pending_rows_are_never_purged_as_ended(t: Fixture) -> Checked {
    t.write(vec![in_slot(event("a")), in_queue(event("q")), in_slot(event("d").due(at(9)))], at(0)).await?;
    t.apply("a", retry(secs(1)), at(0)).await?;
    for status in [PurgeStatus::Done, PurgeStatus::Dead] {
        assert_eq!(purge(&t, status, 0, 9_999).await?, 0);
    }
    assert_eq!(left(&t).await?, 3);
    Ok(())
}

/// EVT-130
async fn a_replayed_row_is_not_purged(t: Fixture) -> Checked {
    t.write(plain(&["a"]), at(0)).await?;
    t.apply("a", dead(), at(1)).await?;
    t.replay(only(&["a"]), at(100)).await?;
    assert_eq!(purge(&t, PurgeStatus::Dead, 5, 200).await?, 0);
    t.apply("a", dead(), at(150)).await?;
    assert_eq!(purge(&t, PurgeStatus::Dead, 60, 200).await?, 0, "it died again just now");
    assert!(t.find("a").await?.is_some());
    Ok(())
}

/// EVT-135
async fn by_age_alone_everything_goes(t: Fixture) -> Checked {
    t.write(vec![in_slot(event("new")), in_queue(event("q")), in_slot(event("done"))], at(0)).await?;
    t.write(plain(&["young"]), at(50)).await?;
    t.apply("done", Change::Done, at(90)).await?;
    assert_eq!(purge(&t, PurgeStatus::Any, 50, 100).await?, 3);
    assert_eq!(ids(&t.pending().await?), ["young"]);
    Ok(())
}

/// EVT-130
async fn attempts_go_with_their_row(t: Fixture) -> Checked {
    t.write(plain(&["a"]), at(0)).await?;
    t.apply("a", dead(), at(1)).await?;
    assert_eq!(purge(&t, PurgeStatus::Dead, 1, 99).await?, 1);
    t.write(plain(&["a"]), at(100)).await?;
    assert_eq!(t.store.admin().show(id("a")).await?.expect("there").attempts, []);
    Ok(())
}

/// PBX-014
async fn ages_are_judged_by_the_databases_clock(t: Fixture) -> Checked {
    t.store.write(pillarbox::port::Write { rows: plain(&["a"]), now: None }).await?;
    let by_age = |older_than| Purge { status: PurgeStatus::Any, older_than, limit: 9, now: None };
    assert_eq!(t.store.admin().purge(by_age(secs(3600))).await?, 0);
    t.write(plain(&["long-ago"]), at(0)).await?;
    assert_eq!(t.store.admin().purge(by_age(secs(3600))).await?, 1);
    Ok(())
}

/// PBX-072: without it, unblocking would silently pass over an event that nobody has delivered.
async fn the_dead_head_of_a_blocked_group_stays(t: Fixture) -> Checked {
    t.write(grouped("g", &["head", "next"]), at(0)).await?;
    t.write(plain(&["alone"]), at(0)).await?;
    t.apply("head", dead_blocking("g"), at(1)).await?;
    t.apply("alone", dead(), at(1)).await?;
    let one = Purge { status: PurgeStatus::Dead, older_than: secs(5), limit: 1, now: Some(at(99)) };
    assert_eq!(t.store.admin().purge(one).await?, 1, "what stays takes no place in a batch");
    assert!(t.find("alone").await?.is_none());
    assert_eq!(purge(&t, PurgeStatus::Any, 5, 99).await?, 1);
    assert!(t.find("head").await?.is_some() && t.find("next").await?.is_none());
    t.change_group("g", GroupAction::Skip, at(100)).await?;
    assert_eq!(purge(&t, PurgeStatus::Dead, 5, 101).await?, 1, "nothing waits behind it any more");
    Ok(())
}

/// PBX-105: two processes at once; one that meets the other may leave off.
async fn purges_in_turn_delete_each_row_once(t: Fixture) -> Checked {
    let ids: Vec<String> = (0..40).map(|n| format!("e{n}")).collect();
    let names: Vec<&str> = ids.iter().map(String::as_str).collect();
    t.write(plain(&names), at(0)).await?;
    for id in &names[1..] {
        t.apply(id, Change::Done, at(1)).await?;
    }
    let request = || Purge { status: PurgeStatus::Done, older_than: secs(5), limit: 5, now: Some(at(99)) };
    let mut gone = 0;
    for _ in 0..39 {
        let (one, other) =
            tokio::join!(t.store.admin().purge_in_turn(request()), t.beside.admin().purge_in_turn(request()));
        gone += one? + other?;
        if gone == 39 {
            break;
        }
    }
    assert_eq!((gone, left(&t).await?), (39, 1));
    Ok(())
}
