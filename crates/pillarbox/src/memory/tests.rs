//! What only the memory store has: its clock, its bound, transactions that are dropped.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::*;
use crate::model::{Event, NewRow, Placement, Seq, Slot, SlotSet};
use crate::port::{
    Begin, ByteLimits, CommitError, Cursor, ErrorKind, Fetch, Fetched, Scope, Select, Store, StoreError,
    Table, Write, WriteOn,
};

fn row(id: &str) -> NewRow {
    let event = Event::text("t", "{}").id(id).build().unwrap();
    NewRow { event, placement: Placement::Slot }
}

async fn write(store: &MemoryStore, id: &str) -> Result<Seq, StoreError> {
    let written = store.write(Write { rows: vec![row(id)], now: None }).await?;
    Ok(written[0].seq)
}

async fn read(store: &MemoryStore, cursor: Cursor) -> Fetched {
    let scope = Scope::Slots { slots: SlotSet::new((0..64).map(Slot)), cursor };
    let fetch = Fetch { scope, rows: 100, bytes: ByteLimits::NONE, skip_recent: Duration::ZERO, now: None };
    store.fetch(fetch).await.unwrap()
}

/// PBX-026
#[tokio::test(start_paused = true)]
async fn the_clock_runs_with_tokios_and_can_be_moved_both_ways() {
    let base: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let clock = MemoryClock::starting_at(base);
    tokio::time::advance(Duration::from_secs(5)).await;
    assert_eq!(clock.now(), base + Duration::from_secs(5));
    clock.advance(Duration::from_secs(10));
    clock.clone().jump(SignedDuration::from_secs(-20));
    assert_eq!(clock.now(), base - Duration::from_secs(5));
}

#[test]
fn the_clock_needs_no_runtime() {
    let clock = MemoryClock::default();
    let before = clock.now();
    clock.advance(Duration::from_secs(3600));
    assert!(clock.now().duration_since(before) >= SignedDuration::from_secs(3600));
    clock.advance(Duration::MAX);
    clock.advance(Duration::MAX);
    assert!(clock.now() > before);
}

#[tokio::test]
async fn a_full_store_refuses_writes_and_keeps_what_it_has() {
    let store = MemoryStore::with(MemoryOptions { max_rows: 1, ..MemoryOptions::default() });
    write(&store, "a").await.unwrap();
    assert_eq!(write(&store, "b").await.unwrap_err().kind(), ErrorKind::Unavailable);
    let mut tx = store.begin().await.unwrap();
    store.insert(&mut tx, &[row("c")]).await.unwrap();
    assert!(matches!(store.commit(tx).await, Err(CommitError::Refused(_))));
    assert_eq!(store.admin().count(Select::default()).await.unwrap(), 1);
}

/// PBX-024
#[tokio::test]
async fn a_dropped_transaction_leaves_nothing_and_holds_nothing_back() {
    let store = MemoryStore::new();
    let mut tx = store.begin().await.unwrap();
    store.insert(&mut tx, &[row("a")]).await.unwrap();
    let late = write(&store, "b").await.unwrap();
    assert_eq!(read(&store, Cursor::default()).await.cursor.decided, Seq(0));
    drop(tx);
    let fetched = read(&store, Cursor::default()).await;
    assert_eq!(fetched.cursor.decided, late);
    assert_eq!(fetched.rows.len(), 1);
}

#[tokio::test]
async fn an_open_transaction_holds_its_ids_until_it_ends() {
    let store = MemoryStore::new();
    let named = |id: &str| NewRow {
        event: Event::text("t", "{}").id(id).message_id("m").build().unwrap(),
        placement: Placement::Slot,
    };
    let (mut first, mut second) = (store.begin().await.unwrap(), store.begin().await.unwrap());
    store.insert(&mut first, &[named("a")]).await.unwrap();
    for rows in [[row("b"), row("a")], [row("b"), named("c")]] {
        let error = store.insert(&mut second, &rows).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict);
    }
    drop(first);
    let written = store.insert(&mut second, &[row("b"), named("a")]).await.unwrap();
    assert!(written.iter().all(|one| one.fresh), "the insert that failed left nothing in the transaction");
    store.commit(second).await.unwrap();
    assert_eq!(store.admin().count(Select::default()).await.unwrap(), 2);
    assert_eq!(read(&store, Cursor::default()).await.cursor.decided, written[1].seq);
}

#[tokio::test]
async fn a_refused_write_frees_its_ids() {
    let store = MemoryStore::with(MemoryOptions { max_rows: 1, ..MemoryOptions::default() });
    let two = Write { rows: vec![row("a"), row("b")], now: None };
    assert_eq!(store.write(two).await.unwrap_err().kind(), ErrorKind::Unavailable);
    write(&store, "a").await.unwrap();
}

#[tokio::test]
async fn a_transaction_of_another_store_is_refused() {
    let (store, other) = (MemoryStore::new(), MemoryStore::new());
    let mut tx = other.begin().await.unwrap();
    let error = store.insert(&mut tx, &[row("a")]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

#[tokio::test]
async fn hints_tell_of_commits_that_added_rows() {
    let store = MemoryStore::new();
    let mut hints = store.wakeups().unwrap().0;
    store.commit(store.begin().await.unwrap()).await.unwrap();
    assert!(!hints.has_changed().unwrap());
    write(&store, "a").await.unwrap();
    hints.changed().await.unwrap();
}
