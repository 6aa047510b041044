//! Dead events, and events taken back: query, count, replay, discard, cancel.

use pillarbox::model::{EventId, Lane, Slot, Status, Token};
use pillarbox::port::{
    Cancel, Change, ClaimFrom, Discard, GroupAction, GroupState, List, Replay, Select, StoreError,
};

use crate::case::{Case, Checked, cases};
use crate::harness::Fixture;
use crate::kit::*;

pub(crate) fn cases() -> Vec<Case> {
    cases!("dead"; Nothing:
        dead_events_are_found_by_type_and_aggregate_oldest_first,
        dead_events_are_counted_by_type,
        replay_makes_an_event_new_again_and_tells_so,
        replay_all_goes_in_batches,
        replay_touches_dead_events_only,
        a_replayed_event_goes_to_the_end,
        a_replayed_queue_event_stays_in_the_queue,
        an_event_that_blocks_its_group_is_replayed_in_its_place,
        a_paused_group_stays_paused_when_its_event_is_replayed,
        history_and_token_survive_a_replay,
        discard_deletes_dead_events_only,
        discarding_the_event_that_blocks_a_group_frees_it,
        pending_events_are_cancelled,
        ended_and_claimed_events_are_not_cancelled,
        replay_and_discard_choose_by_group_and_time,
    )
}

async fn kill(t: &Fixture, ids: &[&str]) -> Result<(), StoreError> {
    for id in ids {
        t.apply(id, dead(), at(5)).await?;
    }
    Ok(())
}

async fn discard(t: &Fixture, select: Select, limit: usize) -> Result<u64, StoreError> {
    t.store.admin().discard(Discard { select, limit, by: "ann".to_owned(), now: Some(at(9)) }).await
}

async fn cancel(t: &Fixture, ids: &[&str], now: i64) -> Result<Vec<EventId>, StoreError> {
    let ids = ids.iter().map(|text| id(text)).collect();
    let mut cancelled =
        t.store.admin().cancel(Cancel { ids, by: "ann".to_owned(), now: Some(at(now)) }).await?;
    cancelled.sort_unstable();
    Ok(cancelled)
}

fn typed(kind: &str) -> Select {
    Select { event_type: Some(kind.to_owned()), ..Select::default() }
}

async fn three_dead(t: &Fixture) -> Result<(), StoreError> {
    let row = |id: &str, kind: &str, about: &str| {
        in_slot(pillarbox::Event::text(kind.to_owned(), "{}").id(id).aggregate_type(about))
    };
    let rows = vec![
        row("a", "paid", "order"),
        row("b", "sent", "order"),
        row("c", "paid", "parcel"),
        row("d", "paid", "order"),
    ];
    t.write(rows, at(0)).await?;
    kill(t, &["c", "b", "a"]).await
}

/// EVT-140
async fn dead_events_are_found_by_type_and_aggregate_oldest_first(t: Fixture) -> Checked {
    three_dead(&t).await?;
    let found = |event_type: Option<&str>, aggregate_type: Option<&str>, limit| {
        let select = Select {
            statuses: vec![Status::Dead],
            event_type: event_type.map(str::to_owned),
            aggregate_type: aggregate_type.map(str::to_owned),
            ..Select::default()
        };
        t.store.admin().list(List { select, limit, ..List::default() })
    };
    assert_eq!(record_ids(&found(None, None, 9).await?), ["a", "b", "c"]);
    assert_eq!(record_ids(&found(None, None, 2).await?), ["a", "b"]);
    assert_eq!(record_ids(&found(Some("paid"), None, 9).await?), ["a", "c"]);
    assert_eq!(record_ids(&found(Some("paid"), Some("parcel"), 9).await?), ["c"]);
    assert_eq!(record_ids(&found(Some("Paid"), None, 9).await?), [""; 0]);
    Ok(())
}

/// EVT-143
async fn dead_events_are_counted_by_type(t: Fixture) -> Checked {
    three_dead(&t).await?;
    let count = |select: Select| {
        let select = Select { statuses: vec![Status::Dead], ..select };
        t.store.admin().count(select)
    };
    assert_eq!(count(Select::default()).await?, 3);
    assert_eq!(count(typed("paid")).await?, 2);
    assert_eq!(count(typed("other")).await?, 0);
    Ok(())
}

/// EVT-141
async fn replay_makes_an_event_new_again_and_tells_so(t: Fixture) -> Checked {
    t.write(plain(&["a", "b"]), at(0)).await?;
    t.apply("a", retry(secs(100)), at(1)).await?;
    kill(&t, &["a", "b"]).await?;
    assert_eq!(t.replay(only(&["a"]), at(9)).await?, 1);
    let record = t.record("a").await?;
    assert_eq!((record.status, record.attempts, record.available_at), (Status::New, 0, at(9)));
    assert_eq!((record.done_at, record.last_error, record.created_at), (None, None, at(0)));
    assert_eq!(ids(&t.pending().await?), ["a"]);
    assert_eq!(t.replay(only(&["a"]), at(9)).await?, 0, "it is no longer dead");
    assert_eq!(t.replay(only(&["unknown"]), at(9)).await?, 0);
    Ok(())
}

/// EVT-142
async fn replay_all_goes_in_batches(t: Fixture) -> Checked {
    three_dead(&t).await?;
    t.apply("d", dead(), at(5)).await?;
    let replay = |select, limit| {
        t.store.admin().replay(Replay { select, limit, by: "ann".to_owned(), now: Some(at(9)) })
    };
    assert_eq!(replay(typed("paid"), 2).await?, 2);
    assert_eq!(ids(&t.pending().await?), ["a", "c"], "oldest first");
    assert_eq!(replay(typed("paid"), 2).await?, 1);
    assert_eq!(replay(typed("paid"), 2).await?, 0);
    assert_eq!(replay(Select::default(), 0).await?, 0);
    assert_eq!(replay(Select::default(), 9).await?, 1);
    Ok(())
}

/// EVT-141
async fn replay_touches_dead_events_only(t: Fixture) -> Checked {
    t.write(plain(&["new", "done", "dead"]), at(0)).await?;
    t.apply("done", Change::Done, at(5)).await?;
    kill(&t, &["dead"]).await?;
    let done = Select { statuses: vec![Status::Done], ..Select::default() };
    assert_eq!(t.replay(done, at(9)).await?, 0);
    assert_eq!(t.replay(Select::default(), at(9)).await?, 1);
    assert_eq!(t.record("done").await?.status, Status::Done);
    Ok(())
}

/// EVT-141
async fn a_replayed_event_goes_to_the_end(t: Fixture) -> Checked {
    t.write(vec![in_slot(event("a").group("g")), in_lane(event("b"), 64)], at(0)).await?;
    let (home, last) = (t.record("a").await?.slot, t.record("b").await?.seq);
    kill(&t, &["a", "b"]).await?;
    assert_eq!(t.replay(Select::default(), at(9)).await?, 2);
    let (a, b) = (t.record("a").await?, t.record("b").await?);
    assert!(last < a.seq && a.seq < b.seq, "new numbers, in the old order");
    assert_eq!(a.slot, home);
    assert_ne!(b.slot, Slot(64), "its node may be gone: whoever holds its slot delivers it");
    Ok(())
}

/// EVT-141
async fn a_replayed_queue_event_stays_in_the_queue(t: Fixture) -> Checked {
    t.write(vec![in_queue(event("a"))], at(0)).await?;
    kill(&t, &["a"]).await?;
    t.replay(Select::default(), at(9)).await?;
    assert_eq!(t.record("a").await?.slot, Lane::QUEUE.slot());
    assert_eq!(ids(&t.claim(ClaimFrom::Queue, "ann", 1, at(9)).await?), ["a"]);
    Ok(())
}

/// EVT-141, PBX-010
async fn an_event_that_blocks_its_group_is_replayed_in_its_place(t: Fixture) -> Checked {
    t.write(grouped("g", &["a", "b"]), at(0)).await?;
    let before = t.record("a").await?;
    t.apply("a", dead_blocking("g"), at(5)).await?;
    assert_eq!(t.replay(only(&["a"]), at(9)).await?, 1);
    let after = t.record("a").await?;
    assert_eq!((after.seq, after.slot, after.status), (before.seq, before.slot, Status::New));
    assert_eq!(ids(&t.pending().await?), ["a", "b"]);
    assert_eq!(t.held_group("g").await?, None, "the group goes on");
    Ok(())
}

/// PBX-010
async fn a_paused_group_stays_paused_when_its_event_is_replayed(t: Fixture) -> Checked {
    t.write(grouped("g", &["a", "b"]), at(0)).await?;
    let before = t.record("a").await?;
    t.apply("a", dead_blocking("g"), at(5)).await?;
    t.change_group("g", GroupAction::Pause, at(6)).await?;
    assert_eq!(t.replay(only(&["a"]), at(9)).await?, 1);
    assert_eq!(t.record("a").await?.seq, before.seq);
    let held = t.held_group("g").await?.expect("still paused");
    assert_eq!((held.state, held.event), (GroupState::Paused, None));
    assert!(t.change_group("g", GroupAction::Resume, at(10)).await?);
    assert_eq!(t.held_group("g").await?, None, "nothing is dead in it");
    Ok(())
}

/// EVT-141, PBX-011
async fn history_and_token_survive_a_replay(t: Fixture) -> Checked {
    t.write(plain(&["a"]), at(0)).await?;
    t.claim(ClaimFrom::Events, "ann", 1, at(0)).await?;
    kill(&t, &["a"]).await?;
    t.replay(Select::default(), at(9)).await?;
    let shown = t.store.admin().show(id("a")).await?.expect("there");
    assert_eq!((shown.record.token, shown.attempts.len()), (Token(1), 1));
    Ok(())
}

/// EVT-140
async fn discard_deletes_dead_events_only(t: Fixture) -> Checked {
    t.write(plain(&["new", "done", "x", "y", "z"]), at(0)).await?;
    t.apply("done", Change::Done, at(5)).await?;
    kill(&t, &["x", "y", "z"]).await?;
    assert_eq!(discard(&t, only(&["new", "done"]), 9).await?, 0);
    assert_eq!(discard(&t, only(&["z", "unknown"]), 9).await?, 1);
    assert_eq!(discard(&t, Select::default(), 1).await?, 1);
    assert!(t.find("x").await?.is_none() && t.find("y").await?.is_some(), "oldest first");
    assert_eq!(discard(&t, Select::default(), 9).await?, 1);
    assert_eq!(t.store.admin().count(Select::default()).await?, 2);
    Ok(())
}

/// PBX-010
async fn discarding_the_event_that_blocks_a_group_frees_it(t: Fixture) -> Checked {
    t.write(grouped("g", &["a", "b"]), at(0)).await?;
    t.write(grouped("h", &["c"]), at(0)).await?;
    t.apply("a", dead_blocking("g"), at(5)).await?;
    t.apply("c", dead_blocking("h"), at(5)).await?;
    t.change_group("h", GroupAction::Pause, at(6)).await?;
    assert_eq!(discard(&t, Select::default(), 9).await?, 2);
    assert_eq!(t.held_group("g").await?, None);
    let paused = t.held_group("h").await?.expect("still paused");
    assert_eq!((paused.state, paused.event), (GroupState::Paused, None));
    assert_eq!(ids(&t.pending().await?), ["b"]);
    Ok(())
}

/// PBX-027
async fn pending_events_are_cancelled(t: Fixture) -> Checked {
    let rows =
        vec![in_slot(event("a")), in_queue(event("b")), in_slot(event("c").due(at(9))), in_slot(event("d"))];
    t.write(rows, at(0)).await?;
    t.apply("d", retry(secs(1)), at(1)).await?;
    assert_eq!(cancel(&t, &["d", "c", "b", "b", "unknown"], 5).await?, ["b", "c", "d"].map(id));
    assert_eq!(ids(&t.pending().await?), ["a"]);
    assert!(t.find("c").await?.is_none());
    assert_eq!(cancel(&t, &["b"], 5).await?, []);
    Ok(())
}

/// PBX-027
async fn ended_and_claimed_events_are_not_cancelled(t: Fixture) -> Checked {
    t.write(plain(&["done", "dead", "claimed"]), at(0)).await?;
    t.apply("done", Change::Done, at(1)).await?;
    kill(&t, &["dead"]).await?;
    t.claim(ClaimFrom::Events, "ann", 9, at(0)).await?;
    let all = ["done", "dead", "claimed"];
    assert_eq!(cancel(&t, &all, 29).await?, []);
    assert_eq!(cancel(&t, &all, 30).await?, [id("claimed")], "the claim has run out");
    assert_eq!(t.store.admin().count(Select::default()).await?, 2);
    Ok(())
}

/// EVT-140, EVT-142
async fn replay_and_discard_choose_by_group_and_time(t: Fixture) -> Checked {
    t.write([grouped("g", &["a", "b"]), grouped("h", &["c"])].concat(), at(0)).await?;
    for (id, when) in [("a", 5), ("b", 6), ("c", 5)] {
        t.apply(id, dead(), at(when)).await?;
    }
    let chosen = Select { group: Some(group("g")), ended_before: Some(at(6)), ..Select::default() };
    assert_eq!(t.store.admin().count(chosen.clone()).await?, 1);
    assert_eq!(t.replay(chosen, at(9)).await?, 1);
    assert_eq!(ids(&t.pending().await?), ["a"]);
    let rest = Select { group: Some(group("g")), ..Select::default() };
    assert_eq!(discard(&t, rest, 9).await?, 1);
    assert!(t.find("c").await?.is_some());
    Ok(())
}
