//! The slot of a row: triggers compute it for every writer, and statements that move a row name it.

use std::time::Duration;

use pillarbox::model::{Event, EventBuilder, Lane, NewRow, Placement};
use pillarbox::port::{Admin, Change, Counts, Migrated, OnDone, Order, Promote, Store, Table, Wait, Write};
use pillarbox_conformance::{account_insert, account_row, node, register, settle};
use pillarbox_postgres::sqlx::{AssertSqlSafe, Executor, raw_sql};

use crate::kit::{Fixture, ORDER_PLACED};

/// Rows whose slot is neither their lane nor the hash of their group or id.
const MISPLACED: &str = "SELECT count(*) FROM outbox_event WHERE slot IS DISTINCT FROM coalesce(lane, (hashtext(\
    coalesce(message_group, coalesce(aggregate_type, '__GLOBAL__') || '/' || aggregate_id, event_id)) & 63)::smallint)";

fn row(event: EventBuilder, placement: Placement) -> NewRow {
    NewRow { event: event.build().unwrap(), placement }
}

/// PBX-141: one row and many, with group, aggregate, neither, in a lane, in the queue and delayed; then the same rows from other writers.
#[tokio::test]
async fn every_writer_puts_a_group_into_the_same_slot() {
    let Some(fixture) = Fixture::new().await else { return };
    let store = fixture.store().await;
    let rows = |prefix: &str| {
        let new = |id: &str| Event::text(ORDER_PLACED, "{}").id(format!("{prefix}-{id}"));
        let soon = Duration::from_secs(3_600);
        vec![
            row(new("alone"), Placement::Slot),
            row(new("group").group("g"), Placement::Slot),
            row(new("aggregate").aggregate("Account", "7"), Placement::Slot),
            row(new("lane"), Placement::Lane(Lane(70))),
            row(new("queue"), Placement::Queue),
            row(new("delayed").group("g").due(soon), Placement::Slot),
            row(new("expires").group("g").expires(soon), Placement::Slot),
        ]
    };
    store.write(Write { rows: rows("many"), now: None }).await.unwrap();
    for one in rows("one") {
        store.write(Write { rows: vec![one], now: None }).await.unwrap();
    }
    fixture.execute(&account_insert("plain", "7")).await;
    assert_eq!(fixture.number(MISPLACED).await, 0);
    let slots = "SELECT count(DISTINCT slot) FROM outbox_event WHERE aggregate_id = '7'";
    assert_eq!(fixture.number(slots).await, 1, "the library and a plain writer agree");
    assert_eq!(fixture.number("SELECT count(*) FROM outbox_event WHERE slot = -1").await, 2);
}

/// PBX-141: a delay, a promotion and a replay move the row to the slot of its new lane.
#[tokio::test]
async fn a_row_that_changes_its_lane_changes_its_slot() {
    let Some(fixture) = Fixture::new().await else { return };
    let store = fixture.store().await;
    store.register(register(1, Duration::from_secs(60))).await.unwrap();
    let written = store
        .write(Write { rows: vec![account_row("a", "7"), account_row("b", "8")], now: None })
        .await
        .unwrap();
    let retry = Change::Retry {
        delay: Duration::ZERO,
        error: "later".into(),
        counts: Counts::Made(1),
        wait: Wait::Delayed,
    };
    store.settle(settle(1, &written, OnDone::Keep, &retry)).await.unwrap();
    assert_eq!(fixture.number("SELECT count(*) FROM outbox_event WHERE slot = -1").await, 2);
    fixture.execute("UPDATE outbox_event SET available_at = now() - interval '1 hour'").await;
    let promote = Promote { node: node(1), lane: Lane(64), order: Order::PerGroup, rows: 1, now: None };
    store.promote(promote).await.unwrap();
    assert_eq!(fixture.number("SELECT count(*) FROM outbox_event WHERE slot = -1").await, 1);
    assert_eq!(fixture.number(MISPLACED).await, 0);
}

/// PBX-092, PBX-141: statements of a release that left the slot to the database, and changes by hand.
#[tokio::test]
async fn the_slot_follows_statements_that_do_not_know_it() {
    let Some(fixture) = Fixture::new().await else { return };
    fixture.store().await;
    fixture.execute(&account_insert("a", "7")).await;
    for change in
        ["lane = -1", "lane = NULL", "lane = 70, attempts = 1", "message_group = 'other', lane = NULL"]
    {
        fixture.execute(&format!("UPDATE outbox_event SET {change}")).await;
        assert_eq!(fixture.number(MISPLACED).await, 0, "{change}");
    }
}

/// PBX-141: the trigger changes its own table, wherever the search path of the session leads.
#[tokio::test]
async fn the_slot_follows_in_sessions_with_another_search_path() {
    let Some(fixture) = Fixture::new().await else { return };
    let Some(other) = Fixture::new().await else { return };
    for one in [&fixture, &other] {
        one.store().await;
        one.execute(&account_insert("a", "7")).await;
    }
    let mut connection = fixture.connection().await;
    for path in ["pg_catalog".to_owned(), other.schema.clone()] {
        for change in ["lane = -1", "lane = NULL"] {
            let sql = format!(
                "SET search_path = {path}; UPDATE {}.outbox_event SET {change} WHERE event_id = 'a'",
                fixture.schema
            );
            connection.execute(raw_sql(AssertSqlSafe(sql))).await.unwrap();
            assert_eq!(fixture.number(MISPLACED).await, 0, "{path}: {change}");
            assert_eq!(other.number(MISPLACED).await, 0, "{path}: {change}");
        }
    }
}

/// PBX-141: nor can an update by hand move it to where no reader would find it.
#[tokio::test]
async fn an_unknown_lane_is_refused_in_updates_by_hand() {
    let Some(fixture) = Fixture::new().await else { return };
    fixture.store().await;
    fixture.execute(&account_insert("a", "7")).await;
    let mut connection = fixture.connection().await;
    for lane in [-3, 0, 63] {
        let sql = format!("UPDATE outbox_event SET lane = {lane}");
        let refused = connection.execute(raw_sql(AssertSqlSafe(sql))).await.unwrap_err();
        let code = refused.as_database_error().and_then(|error| error.code().map(|code| code.into_owned()));
        assert_eq!(code.as_deref(), Some("23514"), "{lane}");
    }
}

/// PBX-141: a plain writer cannot add a row that no reader would find.
#[tokio::test]
async fn a_plain_row_with_an_unknown_lane_or_status_is_refused() {
    let Some(fixture) = Fixture::new().await else { return };
    fixture.store().await;
    let mut connection = fixture.connection().await;
    for (column, value) in [("lane", -3), ("lane", 0), ("lane", 63), ("status", 4), ("status", -1)] {
        let sql = format!(
            "INSERT INTO outbox_event (event_id, event_type, payload, {column}) VALUES ('a', 'x', '{{}}', {value})"
        );
        let refused = connection.execute(raw_sql(AssertSqlSafe(sql))).await.unwrap_err();
        let code = refused.as_database_error().and_then(|error| error.code().map(|code| code.into_owned()));
        assert_eq!(code.as_deref(), Some("23514"), "{column} {value}");
    }
}

/// PBX-092: tables whose slot was a generated column keep their rows and their slots.
#[tokio::test]
async fn tables_with_a_generated_slot_are_upgraded() {
    let Some(fixture) = Fixture::new().await else { return };
    let store = fixture.beside();
    let script = store.schema_sql();
    let (before, _) = script.split_once("-- Makes inserts cheaper.").expect("the fifth migration");
    fixture.execute(&format!("{before}COMMIT")).await;
    fixture.execute(&account_insert("a", "7")).await;
    assert_eq!(store.migrate().await.unwrap(), Migrated { from: 4, to: 6 });
    store.write(Write { rows: vec![account_row("b", "7")], now: None }).await.unwrap();
    assert_eq!(fixture.number(MISPLACED).await, 0);
    assert_eq!(fixture.number("SELECT count(DISTINCT slot) FROM outbox_event").await, 1);
    let checks =
        "SELECT count(*) FROM pg_constraint WHERE conrelid = 'outbox_event'::regclass AND contype = 'c'";
    assert_eq!(fixture.number(checks).await, 0);
    assert_eq!(store.migrate().await.unwrap(), Migrated { from: 6, to: 6 });
}
