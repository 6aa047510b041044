//! Joins on PostgreSQL: what one statement sees of another that it waited for, and tables of an older release.

use pillarbox::model::{FailedSteps, JoinStatus, TableName};
use pillarbox::port::{
    Admin, Begin, ErrorKind, JoinAction, JoinChanged, Joins, Migrated, OnDone, Table, WriteOn,
};
use pillarbox_conformance::{attach, change_join, claim_messages, complete, join_status, start_waiting};
use pillarbox_postgres::sqlx::query;

use crate::kit::{Fixture, NEVER, id};

/// A join of this many steps with a wait.
async fn waiting(store: &dyn Joins, join: &str, expected: u32) {
    start_waiting(store, join, expected, FailedSteps::Fail).await;
}

/// OBX-083, OBX-089, PBX-080: a settle that finds a message busy with an attach counts the step when that is through, and keeps the
/// row that it would have deleted.
#[tokio::test(flavor = "multi_thread")]
async fn a_settle_after_an_attach_in_flight_counts_the_step() {
    for on_done in [OnDone::Keep, OnDone::Delete] {
        let Some(fixture) = Fixture::new().await else { return };
        let store = fixture.store().await;
        waiting(&store, "j", 1).await;
        let rows = claim_messages(&store, &["a", "free"]).await;
        let mut tx = store.begin().await.unwrap();
        assert_eq!(store.change_join_on(&mut tx, attach("j", &["a"])).await.unwrap(), JoinChanged::Changed);
        let settled = store.settle(complete(&rows, on_done)).await.unwrap();
        assert_eq!((settled.busy, settled.stale), (vec![0], Vec::new()), "{on_done:?}");
        store.commit(tx).await.unwrap();
        let settled = store.settle(complete(&rows[..1], on_done)).await.unwrap();
        assert_eq!((settled.busy, settled.stale), (Vec::new(), Vec::new()), "{on_done:?}");
        assert_eq!(join_status(&store, "j").await, JoinStatus::Completed, "{on_done:?}");
        assert!(store.show(id("j-next")).await.unwrap().is_some(), "{on_done:?}");
        assert!(store.show(id("a")).await.unwrap().is_some(), "{on_done:?}");
        assert_eq!(store.show(id("free")).await.unwrap().is_some(), on_done == OnDone::Keep);
    }
}

/// OBX-083, OBX-089: the other way round.
#[tokio::test(flavor = "multi_thread")]
async fn an_attach_that_waited_for_a_settle_counts_the_step() {
    let Some(fixture) = Fixture::new().await else { return };
    let store = fixture.store().await;
    waiting(&store, "j", 1).await;
    let rows = claim_messages(&store, &["a"]).await;
    let mut tx = store.begin().await.unwrap();
    store.settle_on(&mut tx, complete(&rows, OnDone::Keep)).await.unwrap();
    let commit = async {
        fixture.until_locked(1).await;
        store.commit(tx).await.unwrap();
    };
    let (attached, ()) = tokio::join!(store.change_join(attach("j", &["a"])), commit);
    assert_eq!(attached.unwrap(), JoinChanged::Changed);
    assert_eq!(join_status(&store, "j").await, JoinStatus::Completed);
}

/// OBX-034, OBX-099: two transactions that each settle a step of the same two joins.
#[tokio::test(flavor = "multi_thread")]
async fn joins_count_what_was_counted_while_they_waited() {
    let Some(fixture) = Fixture::new().await else { return };
    let store = fixture.store().await;
    let rows = claim_messages(&store, &["a", "b"]).await;
    for join in ["j1", "j2"] {
        waiting(&store, join, 2).await;
        store.change_join(attach(join, &["a", "b"])).await.unwrap();
    }
    let mut tx = store.begin().await.unwrap();
    store.settle_on(&mut tx, complete(&rows[..1], OnDone::Keep)).await.unwrap();
    let settle = store.settle(complete(&rows[1..], OnDone::Keep));
    let commit = async {
        fixture.until_locked(1).await;
        store.commit(tx).await.unwrap();
    };
    let (settled, ()) = tokio::join!(settle, commit);
    assert_eq!(settled.unwrap().stale, Vec::<usize>::new());
    for join in ["j1", "j2"] {
        assert_eq!(join_status(&store, join).await, JoinStatus::Completed);
        assert!(store.show(id(&format!("{join}-next"))).await.unwrap().is_some());
    }
}

/// OBX-089, PBX-025: a transaction that still sees the state from before an attach may not settle past it.
#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_reads_from_before_an_attach_is_refused() {
    let Some(fixture) = Fixture::new().await else { return };
    let store = fixture.store().await;
    let rows = claim_messages(&store, &["a"]).await;
    for join in ["first", "second"] {
        waiting(&store, join, 1).await;
    }
    store.change_join(attach("first", &["a"])).await.unwrap();
    let mut tx = store.begin().await.unwrap();
    query("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ").execute(&mut *tx).await.unwrap();
    query("SELECT count(*) FROM outbox_event").execute(&mut *tx).await.unwrap();
    store.change_join(attach("second", &["a"])).await.unwrap();
    let refused = store.settle_on(&mut tx, complete(&rows, OnDone::Keep)).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict);
    store.rollback(tx).await.unwrap();
    store.settle(complete(&rows, OnDone::Keep)).await.unwrap();
    for join in ["first", "second"] {
        assert_eq!(join_status(&store, join).await, JoinStatus::Completed);
    }
}

/// OBX-108, OBX-111, OBX-123: tables of the release before get what is missing and keep their rows.
#[tokio::test]
async fn tables_of_the_first_version_are_upgraded() {
    let Some(fixture) = Fixture::new().await else { return };
    let store = fixture.beside();
    let script = store.schema_sql();
    let (first, _) = script.split_once("-- Joins:").expect("the second migration");
    fixture.execute(&format!("{first}COMMIT")).await;
    fixture
        .execute("INSERT INTO outbox_event (event_id, event_type, payload, lane) VALUES ('a', 'x', '{}', -2)")
        .await;
    let old = store.check().await.unwrap_err();
    assert!(old.kind() == ErrorKind::Schema && old.to_string().contains("version 1"), "{old}");
    let start = JoinAction::Start { grouping_key: None, expected: 1, metadata: None };
    let missing = store.change_join(change_join("j", start)).await.unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::Schema);
    assert_eq!(store.migrate().await.unwrap(), Migrated { from: 1, to: 6 });
    store.check().await.unwrap();
    waiting(&store, "j", 1).await;
    assert_eq!(store.change_join(attach("j", &["a"])).await.unwrap(), JoinChanged::Changed);
    let rows = claim_messages(&store, &[]).await;
    store.settle(complete(&rows, OnDone::Delete)).await.unwrap();
    assert_eq!(join_status(&store, "j").await, JoinStatus::Completed);
}

/// EVT-048, OBX-111: the functions have the names of their tables, and need no search path.
#[tokio::test]
async fn outboxes_of_other_names_have_joins_of_their_own() {
    let Some(fixture) = Fixture::new().await else { return };
    let mixed = format!("Mixed_{}", &fixture.schema[2..]);
    let name = |text: &str| TableName::new(text).unwrap();
    let mut stores = Vec::new();
    for (schema, table) in [(&fixture.schema, "order"), (&mixed, "Select_event"), (&mixed, "select_event")] {
        let store = fixture.builder().schema(name(schema)).table(name(table)).open();
        store.migrate().await.unwrap();
        waiting(&store, "j", 2).await;
        stores.push(store);
    }
    for store in &stores {
        let rows = claim_messages(store, &["a", "b"]).await;
        store.change_join(attach("j", &["a", "b"])).await.unwrap();
        store.settle(complete(&rows, OnDone::Delete)).await.unwrap();
        assert_eq!(join_status(store, "j").await, JoinStatus::Completed);
        assert_eq!(claim_messages(store, &[]).await.len(), 1);
    }
}

/// PBX-016: whoever waits for work is told of the message that a join ends in.
#[tokio::test(flavor = "multi_thread")]
async fn the_message_that_a_join_ends_in_wakes_other_processes() {
    let Some(fixture) = Fixture::new().await else { return };
    let store = fixture.store().await;
    waiting(&store, "j", 1).await;
    let rows = claim_messages(&store, &["a"]).await;
    store.change_join(attach("j", &["a"])).await.unwrap();
    // What was told of writing has been told when the store is closed.
    store.close().await;
    let (other, settler) = (fixture.beside(), fixture.beside());
    let mut hints = other.wakeups().expect("hints").0;
    fixture
        .until(
            "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND state = 'idle' \
                 AND application_name = current_setting('search_path')",
            1,
        )
        .await;
    hints.mark_unchanged();
    settler.settle(complete(&rows, OnDone::Keep)).await.unwrap();
    tokio::time::timeout(NEVER, hints.changed()).await.expect("never told").unwrap();
    settler.close().await;
    other.close().await;
}
