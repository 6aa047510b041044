//! Order within groups: retries, blocks, and what an operator does about them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pillarbox::engine::{EngineSettings, OnDead};
use pillarbox::memory::MemoryStore;
use pillarbox::model::{EventId, GroupKey, Status};
use pillarbox::port::{GroupAction, GroupChange, HeldGroups, Order, Replay, Select, Table, Verdict};

use crate::kit::{Scripted, engine, record, until, write};

fn ordered(on_dead: OnDead, max_attempts: u32) -> EngineSettings {
    EngineSettings { order: Order::PerGroup, on_dead, max_attempts, ..EngineSettings::default() }
}

fn failed() -> Verdict {
    Verdict::Failed { error: "no".to_owned(), after: None }
}

async fn change(store: &MemoryStore, action: GroupAction) {
    change_of(store, "g", action).await;
}

async fn change_of(store: &MemoryStore, group: &str, action: GroupAction) {
    let request = GroupChange {
        group: GroupKey::new(group),
        action,
        reason: None,
        by: "operator".to_owned(),
        now: None,
    };
    assert!(store.admin().change_group(request).await.unwrap());
}

/// PBX-010
#[tokio::test(start_paused = true)]
async fn a_failing_head_holds_back_its_group_and_no_other() {
    let store = MemoryStore::new();
    let sink = Scripted::new(|delivery| match (delivery.event.id().as_str(), delivery.attempt) {
        ("g1", 1..=3) => failed(),
        _ => Verdict::Accepted,
    });
    let mut engine = engine(Arc::new(store.clone()), sink.clone(), ordered(OnDead::Block, 10), 1).await;
    for (id, group) in [("g1", "g"), ("g2", "g"), ("h1", "h"), ("g3", "g"), ("h2", "h")] {
        write(&store, id, Some(group)).await;
    }
    until(&store, "g3", Status::Done).await;
    let ids = sink.ids();
    let of_g: Vec<_> = ids.iter().filter(|id| id.starts_with('g')).map(String::as_str).collect();
    assert_eq!(of_g, ["g1", "g1", "g1", "g1", "g2", "g3"]);
    let second_try = ids.iter().enumerate().filter(|(_, id)| *id == "g1").nth(1).unwrap().0;
    let h2 = ids.iter().position(|id| id == "h2").unwrap();
    assert!(h2 < second_try, "the other group went on: {ids:?}");
    assert_eq!(record(&store, "g1").await.attempts, 3);
    engine.close().await;
}

/// PBX-010
#[tokio::test(start_paused = true)]
async fn a_block_survives_a_restart_and_each_way_out_of_it_works() {
    for way in ["unblock", "skip", "replay"] {
        let store = MemoryStore::new();
        let mended = Arc::new(AtomicBool::new(false));
        let good = Arc::clone(&mended);
        let sink = Scripted::new(move |delivery| match delivery.event.id().as_str() {
            "g1" if !good.load(Ordering::Relaxed) => failed(),
            _ => Verdict::Accepted,
        });
        let settings = ordered(OnDead::Block, 2);
        let mut first = engine(Arc::new(store.clone()), sink.clone(), settings.clone(), 1).await;
        write(&store, "g1", Some("g")).await;
        write(&store, "g2", Some("g")).await;
        until(&store, "g1", Status::Dead).await;
        first.close().await;
        let mut second = engine(Arc::new(store.clone()), sink.clone(), settings, 2).await;
        write(&store, "h1", Some("h")).await;
        until(&store, "h1", Status::Done).await;
        assert!(record(&store, "g2").await.status.is_pending(), "{way}: still blocked after a restart");
        mended.store(true, Ordering::Relaxed);
        match way {
            "unblock" => change(&store, GroupAction::Unblock).await,
            "skip" => change(&store, GroupAction::Skip).await,
            _ => {
                let select = Select { ids: vec![EventId::new("g1").unwrap()], ..Select::default() };
                let replay = Replay { select, limit: 1, by: "operator".to_owned(), now: None };
                assert_eq!(store.admin().replay(replay).await.unwrap(), 1);
            }
        }
        until(&store, "g2", Status::Done).await;
        let head = record(&store, "g1").await.status;
        assert_eq!(head, if way == "skip" { Status::Dead } else { Status::Done }, "{way}");
        let ids = sink.ids();
        let last = |wanted: &str| ids.iter().rposition(|id| id == wanted).unwrap();
        assert!(last("g1") < last("g2"), "{way}: {ids:?}");
        second.close().await;
    }
}

/// PBX-010
#[tokio::test(start_paused = true)]
async fn with_skip_a_group_goes_on_behind_its_dead_head() {
    let store = MemoryStore::new();
    let sink = Scripted::new(|delivery| match delivery.event.id().as_str() {
        "g1" => failed(),
        _ => Verdict::Accepted,
    });
    let mut engine = engine(Arc::new(store.clone()), sink.clone(), ordered(OnDead::Skip, 2), 1).await;
    write(&store, "g1", Some("g")).await;
    write(&store, "g2", Some("g")).await;
    until(&store, "g2", Status::Done).await;
    assert_eq!(sink.ids(), ["g1", "g1", "g2"]);
    assert_eq!(record(&store, "g1").await.status, Status::Dead);
    engine.close().await;
}

/// PBX-010: on a failure inside a batch the accepted prefix is settled, what was not tried is released untouched.
#[tokio::test(start_paused = true)]
async fn a_failure_inside_a_batch_settles_what_was_before_it_and_counts_nothing_behind_it() {
    let store = MemoryStore::new();
    for n in 1..=4 {
        write(&store, &format!("g{n}"), Some("g")).await;
    }
    let mut sent = 0;
    let sink = Scripted::new(move |delivery| {
        sent += 1;
        match (delivery.event.id().as_str(), sent) {
            ("g2", 2) => failed(),
            ("g3" | "g4", 3..=4) => Verdict::Skipped,
            _ => Verdict::Accepted,
        }
    });
    let settings = EngineSettings { batch: 4, ..ordered(OnDead::Block, 5) };
    let mut engine = engine(Arc::new(store.clone()), sink.clone(), settings, 1).await;
    until(&store, "g4", Status::Done).await;
    assert_eq!(sink.ids(), ["g1", "g2", "g3", "g4", "g2", "g3", "g4"]);
    assert_eq!(record(&store, "g1").await.attempts, 0);
    assert_eq!(record(&store, "g2").await.attempts, 1);
    assert_eq!(record(&store, "g3").await.attempts, 0);
    engine.close().await;
}

/// PBX-100
#[tokio::test(start_paused = true)]
async fn a_list_of_held_groups_longer_than_a_page_is_read_to_its_end() {
    let store = MemoryStore::new();
    for n in 0..HeldGroups::PAGE {
        change_of(&store, &format!("a{n}"), GroupAction::Pause).await;
    }
    // The last in the order of keys: it is on the second page, which a join and a heartbeat read.
    change_of(&store, "z", GroupAction::Pause).await;
    write(&store, "z1", Some("z")).await;
    let sink = Scripted::new(|_| Verdict::Accepted);
    let mut engine = engine(Arc::new(store.clone()), sink.clone(), ordered(OnDead::Block, 2), 1).await;
    write(&store, "free1", Some("free")).await;
    until(&store, "free1", Status::Done).await;
    change_of(&store, "y", GroupAction::Pause).await;
    change_of(&store, "z", GroupAction::Resume).await;
    until(&store, "z1", Status::Done).await;
    write(&store, "y1", Some("y")).await;
    write(&store, "free2", Some("free")).await;
    until(&store, "free2", Status::Done).await;
    assert_eq!(sink.ids(), ["free1", "z1", "free2"]);
    engine.close().await;
}
