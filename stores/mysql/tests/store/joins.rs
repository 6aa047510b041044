//! Joins on MySQL and MariaDB: what a transaction that sees the rows of before counts, and tables of an older release.

use std::time::Duration;

use pillarbox::model::{EventId, FailedSteps, JoinId, JoinStatus, Row, StepState, TableName};
use pillarbox::port::{
    Admin, Begin, Cancel, Change, ErrorKind, Fence, JoinAction, JoinChanged, Joins, Migrated, OnDone,
    Outcome, Settle, Table, Write, WriteOn,
};
use pillarbox_conformance::{
    attach, change_join, claim_messages, complete, join_status, message, node, owner, register, start_waiting,
};
use pillarbox_mysql::sqlx::{AssertSqlSafe, Executor, query_scalar, raw_sql};

use crate::kit::{Fixture, run};

fn id(text: &str) -> EventId {
    EventId::new(text).unwrap()
}

/// A join of this many steps with a wait.
async fn waiting(store: &dyn Joins, join: &str, expected: u32) {
    start_waiting(store, join, expected, FailedSteps::Ignore).await;
}

/// OBX-083, OBX-089, PBX-080: a settle that finds a message busy with an attach counts the step when that is through, and keeps the
/// row that it would have deleted.
#[tokio::test(flavor = "multi_thread")]
async fn a_settle_after_an_attach_in_flight_counts_the_step() {
    for on_done in [OnDone::Keep, OnDone::Delete] {
        for fixture in Fixture::all().await {
            let store = fixture.store().await;
            waiting(&store, "j", 1).await;
            let rows = claim_messages(&store, &["a", "free"]).await;
            let mut tx = store.begin().await.unwrap();
            let attached = store.change_join_on(&mut tx, attach("j", &["a"])).await.unwrap();
            assert_eq!(attached, JoinChanged::Changed);
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
}

/// OBX-083, OBX-089: the other way round.
#[tokio::test(flavor = "multi_thread")]
async fn an_attach_that_waited_for_a_settle_counts_the_step() {
    for fixture in Fixture::all().await {
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
}

/// OBX-034, OBX-089, PBX-025: a transaction that sees the rows of before settles, attaches, reports and cancels by what is
/// there now, under the server's default isolation.
#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_sees_the_rows_of_before_counts_what_is_there_now() {
    for fixture in Fixture::all().await {
        let store = fixture.store().await;
        let rows = claim_messages(&store, &["settled", "done", "reported", "cancelled"]).await;
        let mut tx = store.begin().await.unwrap();
        let seen = "SELECT (SELECT count(*) FROM outbox_event) + (SELECT count(*) FROM outbox_join)";
        let before: i64 = query_scalar(seen).fetch_one(&mut *tx).await.unwrap();
        // All that follows is committed after the first read of the transaction.
        for join in ["j1", "j2", "j3", "j4"] {
            waiting(&store, join, 2).await;
        }
        store.write(Write { rows: vec![message("new")], now: None }).await.unwrap();
        for (join, message) in [("j1", "settled"), ("j3", "reported"), ("j4", "cancelled")] {
            assert_eq!(store.change_join(attach(join, &[message])).await.unwrap(), JoinChanged::Changed);
        }
        store.settle(complete(&rows[1..2], OnDone::Keep)).await.unwrap();
        store.settle(released(&rows[3])).await.unwrap();
        let now: i64 = query_scalar(seen).fetch_one(&mut *tx).await.unwrap();
        assert_eq!(now, before, "the transaction sees the rows of before");
        assert!(
            store.settle_on(&mut tx, complete(&rows[..1], OnDone::Delete)).await.unwrap().stale.is_empty()
        );
        let report = JoinAction::Report { message: id("reported"), state: StepState::Failed };
        for request in [
            attach("j1", &["done"]),
            attach("j2", &["done", "new"]),
            change_join("j3", report),
            attach("j3", &["done"]),
            attach("j4", &["done"]),
        ] {
            let changed = store.change_join_on(&mut tx, request.clone()).await.unwrap();
            assert_eq!(changed, JoinChanged::Changed, "{request:?}");
        }
        let cancel = Cancel { ids: vec![id("cancelled")], by: "ann".to_owned(), now: None };
        assert_eq!(store.cancel_on(&mut tx, cancel).await.unwrap(), [id("cancelled")]);
        store.commit(tx).await.unwrap();
        for (join, expected) in [
            ("j1", JoinStatus::Completed),
            ("j2", JoinStatus::Pending),
            ("j3", JoinStatus::Completed),
            ("j4", JoinStatus::Completed),
        ] {
            let shown = store.show_join(JoinId::new(join).unwrap(), 9).await.unwrap().unwrap();
            assert_eq!((shown.join.status, shown.members.len()), (expected, 2), "{join}");
        }
        assert_eq!(fixture.number("SELECT count(*) FROM outbox_event WHERE event_id LIKE 'j%next'").await, 3);
    }
}

fn released(row: &Row) -> Settle {
    let change = Change::Release { attempts: 0 };
    let outcome = Outcome { seq: row.seq, id: row.id.clone(), token: row.token, change };
    Settle {
        fence: Fence::Owner(owner()),
        outcomes: vec![outcome].into(),
        on_done: OnDone::Keep,
        repeats: None,
        now: None,
    }
}

/// OBX-034, OBX-099: two transactions that each settle a step of the same two joins.
#[tokio::test(flavor = "multi_thread")]
async fn joins_count_what_was_counted_while_they_waited() {
    for fixture in Fixture::all().await {
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
}

/// PBX-025: what has no room or no join leaves nothing behind in a transaction that goes on.
#[tokio::test(flavor = "multi_thread")]
async fn an_attach_that_is_refused_leaves_the_transaction_as_it_was() {
    for fixture in Fixture::all().await {
        let store = fixture.store().await;
        waiting(&store, "j", 1).await;
        let mut tx = store.begin().await.unwrap();
        store.insert(&mut tx, &[message("a"), message("b")]).await.unwrap();
        for (join, expected) in [("j", JoinChanged::Full { expected: 1 }), ("none", JoinChanged::NoSuchJoin)]
        {
            assert_eq!(store.change_join_on(&mut tx, attach(join, &["a", "b"])).await.unwrap(), expected);
        }
        store.commit(tx).await.unwrap();
        assert_eq!(fixture.number("SELECT count(*) FROM outbox_join_member").await, 0);
        assert_eq!(fixture.number("SELECT count(*) FROM outbox_event WHERE joined IS NOT NULL").await, 0);
        assert_eq!(fixture.number("SELECT count(*) FROM outbox_event").await, 2);
    }
}

/// OBX-089: a message that has the id of a member which is gone is passed over, whatever it bears.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_message_under_the_id_of_a_member_is_a_member() {
    for fixture in Fixture::all().await {
        let store = fixture.store().await;
        waiting(&store, "j", 2).await;
        claim_messages(&store, &["a"]).await;
        store.change_join(attach("j", &["a"])).await.unwrap();
        run(&mut fixture.connection().await, "DELETE FROM outbox_event WHERE event_id = 'a'").await;
        assert_eq!(store.change_join(attach("j", &["a"])).await.unwrap(), JoinChanged::Unchanged);
        claim_messages(&store, &["a", "b"]).await;
        assert_eq!(store.change_join(attach("j", &["a"])).await.unwrap(), JoinChanged::Unchanged);
        assert_eq!(store.change_join(attach("j", &["a", "b"])).await.unwrap(), JoinChanged::Changed);
        assert_eq!(fixture.number("SELECT attached_steps FROM outbox_join").await, 2);
    }
}

/// OBX-034: a node that settles a message of the queue ends its steps as anyone does.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_settles_a_message_ends_its_steps() {
    for fixture in Fixture::all().await {
        let store = fixture.store().await;
        store.register(register(1, Duration::from_secs(60))).await.unwrap();
        waiting(&store, "j", 1).await;
        let rows = claim_messages(&store, &["a", "free"]).await;
        store.change_join(attach("j", &["a"])).await.unwrap();
        let settle = Settle { fence: Fence::Node(node(1)), ..complete(&rows, OnDone::Delete) };
        assert!(store.settle(settle).await.unwrap().stale.is_empty());
        assert_eq!(join_status(&store, "j").await, JoinStatus::Completed);
        assert!(store.show(id("a")).await.unwrap().is_some());
        assert!(store.show(id("free")).await.unwrap().is_none());
    }
}

/// OBX-108, OBX-111, OBX-123: tables of the release before get what is missing and keep their rows, also where an upgrade was
/// cut off half way.
#[tokio::test(flavor = "multi_thread")]
async fn tables_of_the_first_version_are_upgraded() {
    for cut_off in [false, true] {
        for fixture in Fixture::all().await {
            let store = fixture.beside();
            let script = store.schema_sql();
            let (first, _) = script.split_once("-- Joins:").expect("the second migration");
            let mut connection = fixture.connection().await;
            run(&mut connection, first).await;
            let row = "INSERT INTO outbox_event (event_id, event_type, payload, lane, available_at) \
                VALUES ('a', 'x', '{}', -2, utc_timestamp(6))";
            run(&mut connection, row).await;
            let old = store.check().await.unwrap_err();
            assert!(old.kind() == ErrorKind::Schema && old.to_string().contains("version 1"), "{old}");
            let start = JoinAction::Start { grouping_key: None, expected: 1, metadata: None };
            let missing = store.change_join(change_join("j", start)).await.unwrap_err();
            assert_eq!(missing.kind(), ErrorKind::Schema);
            if cut_off {
                run(&mut connection, "ALTER TABLE outbox_event ADD COLUMN joined tinyint").await;
            }
            assert_eq!(store.migrate().await.unwrap(), Migrated { from: 1, to: 6 });
            store.check().await.unwrap();
            assert_eq!(store.migrate().await.unwrap(), Migrated { from: 6, to: 6 });
            waiting(&store, "j", 1).await;
            assert_eq!(store.change_join(attach("j", &["a"])).await.unwrap(), JoinChanged::Changed);
            let rows = claim_messages(&store, &[]).await;
            store.settle(complete(&rows, OnDone::Delete)).await.unwrap();
            assert_eq!(join_status(&store, "j").await, JoinStatus::Completed);
        }
    }
}

/// EVT-048, OBX-111, PBX-103: each outbox has joins of its own.
#[tokio::test(flavor = "multi_thread")]
async fn outboxes_of_other_names_have_joins_of_their_own() {
    for fixture in Fixture::all().await {
        for table in ["order", "billing_event"] {
            let store = fixture.builder().table(TableName::new(table).unwrap()).open();
            // PBX-103: the second time changes nothing.
            for _ in 0..2 {
                fixture.pool.execute(raw_sql(AssertSqlSafe(store.schema_sql()))).await.unwrap();
                store.check().await.unwrap();
            }
            waiting(&store, "j", 1).await;
            let rows = claim_messages(&store, &["a"]).await;
            store.change_join(attach("j", &["a"])).await.unwrap();
            store.settle(complete(&rows, OnDone::Delete)).await.unwrap();
            assert_eq!(join_status(&store, "j").await, JoinStatus::Completed, "{table}");
        }
    }
}
