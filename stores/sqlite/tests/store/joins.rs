//! Joins and settles on transactions of the user's own, and what a power cut leaves of them.

use std::time::Duration;

use pillarbox::model::{
    Continuation, EventId, FailedSteps, JoinId, JoinStatus, JoinWait, NewRow, OwnerId, Placement, Row,
};
use pillarbox::port::{
    Admin, BlockingWriteOn, Cancel, Change, Claim, ClaimFrom, ErrorKind, Fence, JoinAction, JoinChange,
    JoinChanged, Joins, OnDone, Outcome, Settle, Store, Table,
};
use pillarbox_sqlite::SqliteStore;
use rusqlite::Connection;

use crate::kit::{Outbox, event, write};

fn queued(id: &str) -> NewRow {
    NewRow { placement: Placement::Queue, ..event(id) }
}

fn id(text: &str) -> EventId {
    EventId::new(text).unwrap()
}

fn change(action: JoinAction) -> JoinChange {
    JoinChange { join: JoinId::new("j").unwrap(), action, now: None }
}

fn start(expected: u32) -> JoinChange {
    change(JoinAction::Start { grouping_key: None, expected, metadata: None })
}

fn attach(messages: &[&str]) -> JoinChange {
    change(JoinAction::Attach { messages: messages.iter().map(|message| id(message)).collect() })
}

fn wait() -> JoinChange {
    let on_complete = Some(Continuation { topic: "next".to_owned(), payload: "{}".to_owned() });
    change(JoinAction::Wait(JoinWait {
        failed_steps: FailedSteps::Fail,
        on_complete,
        on_fail: None,
        message: id("continued"),
        headers: None,
    }))
}

/// A join of these messages that someone waits for.
async fn joined(store: &SqliteStore, messages: &[&str]) {
    write(store, messages.iter().map(|message| queued(message)).collect()).await.unwrap();
    let expected = u32::try_from(messages.len()).unwrap();
    for request in [start(expected), attach(messages), wait()] {
        assert_eq!(store.change_join(request).await.unwrap(), JoinChanged::Changed);
    }
}

async fn claimed(store: &SqliteStore) -> Vec<Row> {
    let request = Claim {
        topics: std::sync::Arc::default(),
        from: ClaimFrom::Queue,
        owner: OwnerId::new("ann").unwrap(),
        lease: Duration::from_secs(30),
        rows: 100,
        bytes: pillarbox::port::ByteLimits::NONE,
        skip_recent: Duration::ZERO,
        now: None,
    };
    store.claim(request).await.unwrap()
}

fn done(rows: &[Row]) -> Settle {
    let outcome =
        |row: &Row| Outcome { seq: row.seq, id: row.id.clone(), token: row.token, change: Change::Done };
    let fence = Fence::Owner(OwnerId::new("ann").unwrap());
    Settle {
        fence,
        outcomes: rows.iter().map(outcome).collect(),
        on_done: OnDone::Keep,
        repeats: None,
        now: None,
    }
}

/// Completed steps, the join's status, and whether the message it ends in is there.
fn state(connection: &Connection) -> (i64, i64, i64) {
    (
        number(connection, "SELECT completed_steps FROM outbox_join"),
        number(connection, "SELECT status FROM outbox_join"),
        number(connection, "SELECT count(*) FROM outbox_event WHERE event_id = 'continued' AND lane = -2"),
    )
}

fn number(connection: &Connection, sql: &str) -> i64 {
    connection.query_row(sql, [], |row| row.get(0)).unwrap()
}

/// PBX-025, OBX-003, OBX-034
#[tokio::test]
async fn a_join_is_built_and_ended_on_transactions_of_ones_own_connection() {
    let outbox = Outbox::new().await;
    let store = &outbox.store;
    let mut connection = outbox.connection();
    let tx = connection.transaction().unwrap();
    store.insert_blocking(&tx, &[queued("a"), queued("b")]).unwrap();
    for request in [start(2), attach(&["a", "b"]), wait()] {
        assert_eq!(store.change_join_blocking(&tx, &request).unwrap(), JoinChanged::Changed);
    }
    tx.commit().unwrap();
    let rows = claimed(store).await;
    for end in ["rollback", "commit"] {
        let mut tx = connection.transaction().unwrap();
        tx.execute("INSERT INTO orders VALUES (1)", []).unwrap();
        assert!(store.settle_blocking(&tx, &done(&rows[..1])).unwrap().stale.is_empty());
        let part = tx.savepoint().unwrap();
        assert!(store.settle_blocking(&part, &done(&rows[1..])).unwrap().stale.is_empty());
        part.commit().unwrap();
        if end == "rollback" {
            tx.rollback().unwrap();
            assert_eq!(
                (state(&outbox.connection()), outbox.number("SELECT count(*) FROM orders")),
                ((0, 0, 0), 0)
            );
        } else {
            tx.commit().unwrap();
        }
    }
    assert_eq!((state(&outbox.connection()), outbox.number("SELECT count(*) FROM orders")), ((2, 1, 1), 1));
}

/// PBX-025: what it reads first does not become old before it writes.
#[tokio::test]
async fn a_deferred_transaction_has_the_lock_before_it_looks() {
    let outbox = Outbox::new().await;
    let store = &outbox.store;
    joined(store, &["a", "b"]).await;
    let rows = claimed(store).await;
    let mut connection = outbox.connection();
    let tx = connection.transaction().unwrap();
    let lock = "BEGIN IMMEDIATE; ROLLBACK";
    let hurried = Connection::open(outbox.path()).unwrap();
    hurried.busy_timeout(Duration::ZERO).unwrap();
    hurried.execute_batch(lock).expect("nobody has begun");
    let nothing = JoinChange { join: JoinId::new("none").unwrap(), ..wait() };
    assert_eq!(store.change_join_blocking(&tx, &nothing).unwrap(), JoinChanged::NoSuchJoin);
    assert!(hurried.execute_batch(lock).is_err(), "others wait");
    tx.rollback().unwrap();
    let tx = connection.transaction().unwrap();
    let none = Settle { fence: Fence::Node(pillarbox::model::NodeId::from_random(1)), ..done(&rows) };
    assert!(!store.settle_blocking(&tx, &none).unwrap().held);
    assert!(hurried.execute_batch(lock).is_err(), "others wait");
}

/// PBX-027
#[tokio::test]
async fn a_step_cancelled_on_a_transaction_fails_with_its_commit() {
    let outbox = Outbox::new().await;
    let store = &outbox.store;
    joined(store, &["a"]).await;
    let mut connection = outbox.connection();
    let cancel = Cancel { ids: vec![id("a")], by: "ann".to_owned(), now: None };
    let tx = connection.transaction().unwrap();
    assert_eq!(store.cancel_blocking(&tx, &cancel).unwrap(), [id("a")]);
    tx.rollback().unwrap();
    assert_eq!(outbox.number("SELECT failed_steps FROM outbox_join"), 0);
    let tx = connection.transaction().unwrap();
    assert_eq!(store.cancel_blocking(&tx, &cancel).unwrap(), [id("a")]);
    tx.commit().unwrap();
    let join = store.show_join(JoinId::new("j").unwrap(), 9).await.unwrap().unwrap().join;
    assert_eq!((join.failed, join.status, join.fired), (1, JoinStatus::Failed, None));
}

#[tokio::test]
async fn without_a_transaction_nothing_is_settled_or_joined() {
    let outbox = Outbox::new().await;
    joined(&outbox.store, &["a"]).await;
    let rows = claimed(&outbox.store).await;
    let mut connection = outbox.connection();
    let tx = connection.transaction().unwrap();
    tx.execute_batch("COMMIT").unwrap();
    let settled = outbox.store.settle_blocking(&tx, &done(&rows)).unwrap_err();
    let changed = outbox.store.change_join_blocking(&tx, &attach(&["a"])).unwrap_err();
    assert_eq!((settled.kind(), changed.kind()), (ErrorKind::InvalidInput, ErrorKind::InvalidInput));
    assert_eq!(state(&outbox.connection()), (0, 0, 0));
}

#[tokio::test]
async fn the_layout_of_items_has_no_joins() {
    let outbox = Outbox::bare();
    let path = outbox.folder.path().join("items.db");
    let store = SqliteStore::builder(&path).open_items().unwrap();
    store.migrate().await.unwrap();
    let mut connection = Connection::open(&path).unwrap();
    let tx = connection.transaction().unwrap();
    assert_eq!(store.change_join_blocking(&tx, &start(1)).unwrap_err().kind(), ErrorKind::Unsupported);
    let nothing = Settle { fence: Fence::Open, ..done(&[]) };
    assert!(store.settle_blocking(&tx, &nothing).unwrap().held);
}

/// OBX-034: a settle need not outlive a power cut, but its joins live and die with it.
#[tokio::test]
async fn a_power_cut_leaves_a_settle_and_its_joins_whole_or_neither() {
    /// The log begins with a header, and has one before each page.
    const LOG_HEADER: usize = 32;
    const FRAME: usize = 24 + 4096;
    let outbox = Outbox::new().await;
    joined(&outbox.store, &["a", "b", "c"]).await;
    let rows = claimed(&outbox.store).await;
    for row in &rows {
        outbox.store.settle(done(std::slice::from_ref(row))).await.unwrap();
    }
    assert_eq!(state(&outbox.connection()), (3, 1, 1));
    let log = std::fs::read(outbox.folder.path().join("test.db-wal")).unwrap();
    let frames = (log.len() - LOG_HEADER) / FRAME;
    let mut seen = std::collections::BTreeSet::new();
    for kept in (0..=frames).rev() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::copy(outbox.path(), folder.path().join("test.db")).unwrap();
        let log = &log[..LOG_HEADER + kept * FRAME];
        std::fs::write(folder.path().join("test.db-wal"), log).unwrap();
        let lost = Connection::open(folder.path().join("test.db")).unwrap();
        let tables = "SELECT count(*) FROM sqlite_schema WHERE name = 'outbox_join'";
        if number(&lost, tables) == 0 || number(&lost, "SELECT count(*) FROM outbox_join") == 0 {
            break;
        }
        let done = number(&lost, "SELECT count(*) FROM outbox_event WHERE status = 1");
        let ended = i64::from(done == 3);
        assert_eq!(state(&lost), (done, ended, ended), "{kept} of {frames} pages");
        seen.insert(done);
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [0, 1, 2, 3]);
}
