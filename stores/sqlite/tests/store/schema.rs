//! The tables: what they hold, how they come to be, who else can write them.

use pillarbox::model::{Event, Lane, NewRow, Placement, Status, TableName};
use pillarbox::port::{Admin, ErrorKind, Migrated, Table, Write};
use pillarbox_sqlite::SqliteStore;
use rusqlite::Connection;

use crate::kit::{Outbox, done, event, fetch_all, write};

const FIFTEEN: [&str; 15] = [
    "event_id",
    "event_type",
    "aggregate_type",
    "aggregate_id",
    "tenant_id",
    "payload",
    "headers",
    "status",
    "attempts",
    "available_at",
    "created_at",
    "done_at",
    "last_error",
    "locked_by",
    "locked_at",
];

fn names(connection: &Connection, sql: &str) -> Vec<String> {
    let mut statement = connection.prepare(sql).unwrap();
    statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

/// EVT-040
#[tokio::test]
async fn the_table_has_the_fifteen_columns_and_an_index_of_what_is_pending() {
    let outbox = Outbox::new().await;
    let connection = outbox.connection();
    let columns = names(&connection, "SELECT name FROM pragma_table_info('outbox_event')");
    assert!(FIFTEEN.iter().all(|name| columns.iter().any(|column| column == name)), "{columns:?}");
    let indexes = names(&connection, "SELECT name FROM pragma_index_list('outbox_event') WHERE partial");
    assert!(indexes.contains(&"outbox_event_pending".to_owned()));
}

/// EVT-042
#[tokio::test]
async fn a_fresh_row_is_new_with_no_attempts() {
    let outbox = Outbox::new().await;
    write(&outbox.store, vec![event("a")]).await.unwrap();
    let row = &fetch_all(&outbox.store).await.rows[0];
    assert_eq!((row.status, row.attempts), (Status::New, 0));
    assert_eq!(outbox.number("SELECT status + attempts FROM outbox_event"), 0);
}

/// EVT-040, EVT-042
#[tokio::test]
async fn a_plain_writer_needs_three_columns() {
    let outbox = Outbox::new().await;
    let before = jiff::Timestamp::now();
    let insert = "INSERT INTO outbox_event (event_id, event_type, payload) VALUES ('a', 'T', '{}')";
    outbox.connection().execute_batch(insert).unwrap();
    let row = fetch_all(&outbox.store).await.rows.remove(0);
    assert_eq!((row.status, row.attempts, row.created_at), (Status::New, 0, row.available_at));
    let apart = row.created_at.duration_since(before).abs();
    assert!(apart < jiff::SignedDuration::from_secs(60), "{apart:?}");
    let event = row.event.unwrap();
    assert_eq!(
        (event.event_type(), event.aggregate_type(), event.payload().as_json()),
        ("T", "__GLOBAL__", Some("{}"))
    );
    assert_eq!(event.occurred_at(), row.created_at);
    assert!((0..64).contains(&row.slot.0));
}

/// EVT-040
#[tokio::test]
async fn a_row_has_the_slot_of_its_group_whoever_writes_it() {
    let outbox = Outbox::new().await;
    let ours = Event::text("T", "{}").id("ours").aggregate("Order", 17).build().unwrap();
    write(&outbox.store, vec![NewRow { event: ours, placement: Placement::Slot }]).await.unwrap();
    outbox
        .connection()
        .execute_batch(
            "INSERT INTO outbox_event (event_id, event_type, payload, message_group) VALUES ('grouped', 'T', '{}', 'Order/17');
             INSERT INTO outbox_event (event_id, event_type, payload, aggregate_type, aggregate_id)
             VALUES ('keyed', 'T', '{}', 'Order', '17')",
        )
        .unwrap();
    let rows = fetch_all(&outbox.store).await.rows;
    assert!(rows.iter().all(|row| row.slot == rows[0].slot && row.group == rows[0].group), "{rows:?}");
}

/// EVT-048
#[tokio::test]
async fn tables_of_any_valid_name_live_beside_each_other() {
    let outbox = Outbox::new().await;
    for name in ["orders_out", "select", "Group", "billing_event"] {
        let table = TableName::new(name).unwrap();
        let store = SqliteStore::builder(outbox.path()).table(table.clone()).open().unwrap();
        assert_eq!(store.migrate().await.unwrap(), Migrated { from: 0, to: 6 }, "{name}");
        store.check().await.unwrap();
        let written = write(&store, vec![event("a"), event("b")]).await.unwrap();
        assert_eq!(written[0].seq.0, 1);
        assert!(store.settle(done(&written[..1])).await.unwrap().stale.is_empty());
        assert_eq!(fetch_all(&store).await.rows.len(), 1);
        let beside = format!("SELECT count(*) FROM \"{}_slot\"", table.family());
        assert_eq!(outbox.number(&beside), 64);
    }
    assert_eq!(outbox.number("SELECT count(*) FROM outbox_event"), 0);
}

/// EVT-048
#[tokio::test]
async fn values_are_bound_whatever_they_hold() {
    let outbox = Outbox::new().await;
    let nasty = "'); DROP TABLE outbox_event; --";
    let event = Event::text(nasty, format!("{{\"a\":\"{nasty}\"}}")).group(nasty).header(nasty, nasty);
    let row = NewRow { event: event.build().unwrap(), placement: Placement::Lane(Lane(64)) };
    write(&outbox.store, vec![row.clone()]).await.unwrap();
    let read = fetch_all(&outbox.store).await.rows.remove(0);
    assert_eq!(read.event.unwrap(), row.event);
    assert_eq!(read.slot.0, 64);
}

/// EVT-048
#[tokio::test]
async fn the_printed_schema_makes_the_same_tables() {
    let outbox = Outbox::new().await;
    let by_hand = Outbox::bare();
    by_hand.connection().execute_batch(&by_hand.store.schema_sql()).unwrap();
    by_hand.store.check().await.unwrap();
    assert_eq!(by_hand.store.migrate().await.unwrap(), Migrated { from: 6, to: 6 });
    let made = "SELECT sql FROM sqlite_schema WHERE name LIKE 'outbox%' AND sql IS NOT NULL ORDER BY name";
    assert_eq!(names(&by_hand.connection(), made), names(&outbox.connection(), made));
}

/// OBX-080
#[tokio::test]
async fn tables_of_the_first_version_are_upgraded_with_all_they_hold() {
    let outbox = Outbox::bare();
    let first = include_str!("../../migrations/0001_outbox.sql");
    let named = ["event", "node", "slot", "group", "attempt", "audit", "meta"]
        .iter()
        .fold(first.to_owned(), |text, name| {
            text.replace(&format!("{{{name}}}"), &format!("\"outbox_{name}\""))
        });
    let named = ["event_pending", "event_message", "event_ended", "event_delayed", "event_queue"]
        .iter()
        .chain(&["attempt_event"])
        .fold(named, |text, name| text.replace(&format!("{{{name}}}"), &format!("\"outbox_{name}\"")));
    outbox.connection().execute_batch(&named).unwrap();
    let insert = "INSERT INTO outbox_event (event_id, event_type, payload) VALUES ('a', 'T', '{}')";
    outbox.connection().execute_batch(insert).unwrap();
    let error = outbox.store.check().await.unwrap_err();
    assert!(error.to_string().contains("version 1"), "{error}");
    assert_eq!(outbox.store.migrate().await.unwrap(), Migrated { from: 1, to: 6 });
    // A release from before the third looks at this alone, and works on.
    let known = "SELECT value FROM outbox_meta WHERE name = 'schema_version'";
    assert_eq!(outbox.number(known), 2);
    outbox.store.check().await.unwrap();
    assert_eq!(fetch_all(&outbox.store).await.rows[0].id.as_str(), "a");
    let fresh = Outbox::new().await;
    let made = "SELECT sql FROM sqlite_schema WHERE name LIKE 'outbox%' AND sql IS NOT NULL ORDER BY name";
    assert_eq!(names(&outbox.connection(), made), names(&fresh.connection(), made));
}

#[tokio::test]
async fn two_who_migrate_at_once_wait_for_each_other() {
    let outbox = Outbox::bare();
    let others = [outbox.beside(), outbox.beside(), outbox.beside()];
    let (a, b, c, d) =
        tokio::join!(outbox.store.migrate(), others[0].migrate(), others[1].migrate(), others[2].migrate());
    let mut from: Vec<u32> = [a, b, c, d].map(|migrated| migrated.unwrap().from).to_vec();
    from.sort_unstable();
    assert_eq!(from, [0, 6, 6, 6]);
}

#[tokio::test]
async fn tables_of_a_newer_release_are_left_alone() {
    let outbox = Outbox::new().await;
    outbox
        .connection()
        .execute("UPDATE outbox_meta SET value = 99 WHERE name = 'schema_version'", [])
        .unwrap();
    for error in [outbox.store.migrate().await.unwrap_err(), outbox.store.check().await.unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Schema);
        assert!(error.to_string().contains("99"), "{error}");
    }
}

#[tokio::test]
async fn numbers_are_never_used_twice() {
    let outbox = Outbox::new().await;
    let written = write(&outbox.store, vec![event("a"), event("b")]).await.unwrap();
    outbox.connection().execute("DELETE FROM outbox_event", []).unwrap();
    let next = write(&outbox.store, vec![event("c")]).await.unwrap();
    assert!(next[0].seq > written[1].seq);
    assert_eq!(fetch_all(&outbox.store).await.cursor.decided, next[0].seq);
}

#[tokio::test]
async fn a_due_time_is_by_the_clock_that_was_passed() {
    let outbox = Outbox::new().await;
    let now: jiff::Timestamp = "2030-01-01T00:00:00Z".parse().unwrap();
    let due = Event::text("T", "{}").due(std::time::Duration::from_secs(60)).build().unwrap();
    let rows = vec![NewRow { event: due, placement: Placement::Slot }];
    assert!(outbox.store.write(Write { rows, now: Some(now) }).await.unwrap()[0].delayed);
    let available = outbox.number("SELECT available_at FROM outbox_event");
    assert_eq!(available, now.as_microsecond() + 60_000_000);
}

/// OBX-119: ready messages are found in their order by their index, however many rows there are.
#[tokio::test]
async fn an_index_serves_the_claim() {
    let outbox = Outbox::new().await;
    let connection = outbox.connection();
    let find =
        "SELECT name FROM sqlite_master WHERE type = 'index' AND sql LIKE '%(available_at, seq)%lane = -2%'";
    let index: String = connection.query_row(find, [], |row| row.get(0)).unwrap();
    let claim = pillarbox_store_kit::statement(include_str!("../../sql/claim.sql"), "claim_queue");
    let claim = claim.replace("{light_columns}", "*").replace("{left_out}", "?1");
    let claim = claim
        .replace("{event}", "outbox_event")
        .replace("{event_queue}", &index)
        .replace("{pending}", "status IN (0, 2)");
    let mut explain = connection.prepare(&format!("EXPLAIN QUERY PLAN {claim}")).unwrap();
    let steps = explain.query_map((9, 9, 9, 9), |row| row.get::<_, String>(3)).unwrap();
    let steps: Vec<String> = steps.map(Result::unwrap).collect();
    assert_eq!(
        steps,
        [format!("SEARCH outbox_event USING INDEX {index} (available_at<?)")],
        "no scan, no sort"
    );
}
