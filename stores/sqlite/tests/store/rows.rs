//! Rows that others wrote: read as they are, or told apart with the reason.

use std::time::Duration;

use pillarbox::model::{Event, Limits, NodeId, OwnerId};
use pillarbox::port::{
    Admin, Claim, ClaimFrom, Fetch, List, Purge, PurgeStatus, ReadScope, Register, Replay, Scope, Select,
    Store, Table,
};

use crate::kit::{Outbox, event, fetch_all, write};

async fn plant(outbox: &Outbox, columns: &str, values: &str) {
    let insert = format!("INSERT INTO outbox_event (event_type, {columns}) VALUES ('T', {values})");
    outbox.connection().execute_batch(&insert).unwrap();
}

/// EVT-083
#[tokio::test]
async fn what_can_not_be_read_is_told_and_the_rows_around_it_come() {
    let outbox = Outbox::new().await;
    write(&outbox.store, vec![event("first")]).await.unwrap();
    let bad = [
        ("event_id, payload, headers", "'h', '{}', '{\"a\":1}'", "headers"),
        ("event_id, payload, headers", "'i', '{}', x'FF'", "headers"),
        ("event_id, payload, created_at", "'c', '{}', 'yesterday'", "created_at"),
        ("event_id, payload, available_at", "'v', '{}', '2026-01-01'", "available_at"),
        ("event_id, payload, expires_at", "'x', '{}', 'never'", "expires_at"),
        ("event_id, payload, attempts", "'t', '{}', 'many'", "attempts"),
        ("event_id, payload", "'n', NULL", "payload"),
        ("event_id, payload", "x'00FF', '{}'", "event_id"),
        ("event_id, payload, message_group", "'g', '{}', x'01'", "message_group"),
        ("event_id, payload", "'u', CAST(x'22FF22' AS TEXT)", "payload"),
    ];
    for (columns, values, _) in bad {
        plant(&outbox, columns, values).await;
    }
    write(&outbox.store, vec![event("last")]).await.unwrap();
    let rows = fetch_all(&outbox.store).await.rows;
    assert_eq!(rows.len(), bad.len() + 2);
    assert!(rows[0].event.is_ok() && rows[bad.len() + 1].event.is_ok());
    for (row, (_, values, column)) in rows[1..].iter().zip(bad) {
        let reason = row.event.as_ref().unwrap_err().to_string();
        assert!(reason.contains(column), "{values}: {reason}");
    }
    let records = outbox.store.list(List { limit: 100, ..List::default() }).await.unwrap();
    assert_eq!(records.iter().filter(|record| record.event.is_err()).count(), bad.len());
}

/// PBX-141: reading begins at the first number that SQLite gives.
#[tokio::test]
async fn a_row_with_a_number_that_nobody_reads_is_refused() {
    let outbox = Outbox::new().await;
    for (seq, id) in [(-1, "below"), (0, "zero"), (i64::MIN, "lowest")] {
        let insert = format!(
            "INSERT INTO outbox_event (seq, event_id, event_type, payload) VALUES ({seq}, '{id}', 'T', '{{}}')"
        );
        let refused = outbox.connection().execute_batch(&insert).unwrap_err().to_string();
        assert!(refused.contains("seq must be above 0"), "{refused}");
    }
    plant(&outbox, "event_id, payload", "'plain', '{}'").await;
    write(&outbox.store, vec![event("written")]).await.unwrap();
    assert_eq!(fetch_all(&outbox.store).await.rows.len(), 2);
}

#[tokio::test]
async fn a_row_that_can_not_be_read_keeps_its_group_and_id() {
    let outbox = Outbox::new().await;
    plant(&outbox, "event_id, payload, aggregate_type, aggregate_id", "'a', NULL, 'Order', '7'").await;
    let row = fetch_all(&outbox.store).await.rows.remove(0);
    assert_eq!(row.group.unwrap().as_str(), "Order/7");
    assert_eq!(row.id.as_str(), "a");
}

#[tokio::test]
async fn what_can_not_be_read_can_be_claimed_and_so_set_aside() {
    let outbox = Outbox::new().await;
    plant(&outbox, "event_id, payload, lane", "'a', NULL, -2").await;
    let claim = Claim {
        topics: std::sync::Arc::default(),
        from: ClaimFrom::Queue,
        owner: OwnerId::new("me").unwrap(),
        lease: Duration::from_secs(10),
        rows: 10,
        bytes: pillarbox::port::ByteLimits::NONE,
        skip_recent: Duration::ZERO,
        now: None,
    };
    let rows = outbox.store.claim(claim).await.unwrap();
    assert_eq!((rows.len(), rows[0].token.0, rows[0].attempts), (1, 1, 1));
    assert!(rows[0].event.is_err());
}

/// EVT-051
#[tokio::test]
async fn empty_headers_are_null_and_null_reads_as_none() {
    let outbox = Outbox::new().await;
    write(&outbox.store, vec![event("ours")]).await.unwrap();
    assert_eq!(outbox.number("SELECT headers IS NULL FROM outbox_event"), 1);
    for (id, stored) in [("a", "NULL"), ("b", "''"), ("c", "'null'"), ("d", "'{}'")] {
        plant(&outbox, "event_id, payload, headers", &format!("'{id}', '{{}}', {stored}")).await;
    }
    for row in fetch_all(&outbox.store).await.rows {
        assert!(row.event.unwrap().headers().is_empty(), "{}", row.id);
    }
}

#[tokio::test]
async fn payloads_come_back_byte_for_byte() {
    let outbox = Outbox::new().await;
    let bytes: Vec<u8> = (0..=255).collect();
    let json = "{ \"b\" : 1,\n \"a\": \"\\u0000 ü\", \"b\": 2 }";
    plant(&outbox, "event_id, payload", &format!("'foreign', '{json}'")).await;
    let ours = [Event::bytes("T", bytes.clone()), Event::text("T", json)];
    let rows = ours.map(|event| pillarbox::model::NewRow {
        event: event.build().unwrap(),
        placement: pillarbox::model::Placement::Slot,
    });
    write(&outbox.store, rows.to_vec()).await.unwrap();
    let read: Vec<_> =
        fetch_all(&outbox.store).await.rows.into_iter().map(|row| row.event.unwrap()).collect();
    assert_eq!(read[0].payload().as_json(), Some(json));
    assert_eq!(read[1].payload().as_bytes(), bytes);
    assert_eq!(read[2], rows[1].event);
}

#[tokio::test]
async fn text_with_nul_is_refused_before_it_is_written() {
    let limits: Limits = Outbox::new().await.store.facts().limits;
    assert!(!limits.nul_in_text);
    assert!(Event::text("T", "\"a\0b\"").build_within(&limits).is_err());
    assert!(Event::text("T", "{}").header("h", "a\0b").build_within(&limits).is_err());
}

/// EVT-083
#[tokio::test]
async fn rows_with_odd_times_and_ids_stop_neither_pollers_nor_operators() {
    let outbox = Outbox::new().await;
    plant(&outbox, "event_id, payload, created_at, available_at", "'t', '{}', 'then', 'soon'").await;
    plant(&outbox, "event_id, payload, lane, available_at", "'d', '{}', -1, 'soon'").await;
    plant(&outbox, "event_id, payload, status, lane", "x'FF', '{}', 3, -2").await;
    let due = Fetch {
        scope: Scope::Due,
        rows: 10,
        bytes: pillarbox::port::ByteLimits::NONE,
        skip_recent: Duration::from_secs(1),
        now: None,
    };
    let rows = outbox.store.fetch(due).await.unwrap().rows;
    assert_eq!(rows.iter().map(|row| row.id.as_str()).collect::<Vec<_>>(), ["t"]);
    let join = Register {
        node: NodeId::from_random(1),
        label: "test".to_owned(),
        reads: ReadScope::Share,
        lease: Duration::from_secs(10),
        now: None,
    };
    outbox.store.register(join).await.unwrap();
    let replay = Replay { select: Select::default(), limit: 10, by: "me".to_owned(), now: None };
    assert_eq!(outbox.store.replay(replay).await.unwrap(), 1);
    assert_eq!(outbox.number("SELECT status FROM outbox_event WHERE lane = -2"), 0);
    assert_eq!(outbox.store.stats().await.unwrap().by_status(), [3, 0, 0, 0]);
    let purge = Purge { status: PurgeStatus::Any, older_than: Duration::ZERO, limit: 10, now: None };
    outbox.store.purge(purge).await.unwrap();
}

#[tokio::test]
async fn lanes_and_statuses_that_no_one_would_deliver_are_refused() {
    let outbox = Outbox::new().await;
    let connection = outbox.connection();
    for (column, value) in
        [("lane", "5"), ("lane", "-3"), ("lane", "40000"), ("lane", "'x'"), ("status", "7")]
    {
        let insert = format!(
            "INSERT INTO outbox_event (event_id, event_type, payload, {column}) VALUES ('a', 'T', '{{}}', {value})"
        );
        assert!(connection.execute_batch(&insert).is_err(), "{column} {value}");
    }
}
