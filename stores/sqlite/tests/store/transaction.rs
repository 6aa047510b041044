//! Writing on transactions: the store's own, and the user's.

use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};

use crate::kit::{Outbox, Seen, done, event, fetch_all, place_order, transact, write};
use pillarbox::Writer;
use pillarbox::model::{Event, EventId, NewRow, Placement};
use pillarbox::port::{
    BlockingWriteOn, Body, Cancel, CommitError, ErrorKind, StoreError, Table, Transact, TransactError,
};
use pillarbox_sqlite::SqliteTransaction;
use rusqlite::{Connection, TransactionBehavior};

fn id(text: &str) -> EventId {
    EventId::from_row(text)
}

fn no(detail: &str) -> StoreError {
    StoreError::new(ErrorKind::Conflict, "test", "test", detail)
}

/// EVT-021, EVT-022
#[tokio::test]
async fn a_commit_leaves_the_row_with_the_business_rows_and_then_calls_back() {
    let outbox = Outbox::new().await;
    let seen = Seen::default();
    let written = transact(&outbox.store, &seen, place_order(&outbox.store, 1)).await.unwrap();
    assert!(written[0].fresh && written[0].id.as_str() == "order-1");
    assert_eq!(outbox.counts(), (1, 1));
    assert_eq!(seen.all(), ["committed"]);
}

/// EVT-021, EVT-022
#[tokio::test]
async fn a_rollback_leaves_nothing_and_calls_back() {
    let outbox = Outbox::new().await;
    let (seen, store) = (Seen::default(), outbox.store.clone());
    let result = transact(&outbox.store, &seen, move |tx| {
        place_order(&store, 1)(tx)?;
        Err::<(), _>(no("changed my mind"))
    });
    assert!(matches!(result.await, Err(TransactError::Body(error)) if error.kind() == ErrorKind::Conflict));
    assert_eq!(outbox.counts(), (0, 0));
    assert_eq!(seen.all(), ["failed"]);
}

/// EVT-021, EVT-023
#[tokio::test]
async fn a_row_goes_in_on_the_users_own_transaction_and_ends_with_it() {
    let outbox = Outbox::new().await;
    let mut connection = outbox.connection();
    for (id, keep) in [("kept", true), ("dropped", false)] {
        let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
        tx.execute("INSERT INTO orders DEFAULT VALUES", []).unwrap();
        let written = outbox.store.insert_blocking(&tx, &[event(id)]).unwrap();
        assert!(written[0].fresh);
        assert_eq!(outbox.counts(), (0, 0).max(if keep { (0, 0) } else { (1, 1) }));
        if keep { tx.commit().unwrap() } else { tx.rollback().unwrap() }
    }
    assert_eq!(outbox.counts(), (1, 1));
    assert_eq!(fetch_all(&outbox.store).await.rows[0].id.as_str(), "kept");
}

/// PBX-024
#[tokio::test]
async fn a_savepoint_taken_back_leaves_no_row() {
    let outbox = Outbox::new().await;
    let store = outbox.store.clone();
    let parts = transact(&outbox.store, &Seen::default(), move |tx| {
        store.insert_blocking(tx, &[event("before")])?;
        let part = tx.savepoint(|tx| {
            store.insert_blocking(tx, &[event("within")]).map_err(|_| Broken)?;
            Err::<(), Broken>(Broken)
        });
        store.insert_blocking(tx, &[event("after")])?;
        Ok(part.is_err())
    });
    assert!(parts.await.unwrap());
    let mut connection = outbox.connection();
    let mut tx = connection.transaction().unwrap();
    let part = tx.savepoint().unwrap();
    outbox.store.insert_blocking(&part, &[event("users own")]).unwrap();
    drop(part);
    tx.commit().unwrap();
    let ids: Vec<_> = fetch_all(&outbox.store).await.rows.iter().map(|row| row.id.to_string()).collect();
    assert_eq!(ids, ["before", "after"]);
}

#[derive(Debug)]
struct Broken;

impl From<rusqlite::Error> for Broken {
    fn from(_: rusqlite::Error) -> Self {
        Self
    }
}

/// PBX-024
#[tokio::test]
async fn an_insert_that_fails_half_way_leaves_none_of_its_rows() {
    let outbox = Outbox::new().await;
    write(&outbox.store, vec![event("taken")]).await.unwrap();
    let error = write(&outbox.store, vec![event("a"), event("taken"), event("b")]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    let mut connection = outbox.connection();
    let tx = connection.transaction().unwrap();
    assert!(outbox.store.insert_blocking(&tx, &[event("c"), event("taken")]).is_err());
    outbox.store.insert_blocking(&tx, &[event("d")]).unwrap();
    tx.commit().unwrap();
    let ids: Vec<_> = fetch_all(&outbox.store).await.rows.iter().map(|row| row.id.to_string()).collect();
    assert_eq!(ids, ["taken", "d"]);
}

#[tokio::test]
async fn a_message_id_that_is_there_wins_over_an_event_id_that_is_there() {
    let outbox = Outbox::new().await;
    let row = || {
        let event = Event::text("t", "{}").id("same").message_id("m").build().unwrap();
        vec![NewRow { event, placement: Placement::Slot }]
    };
    assert!(write(&outbox.store, row()).await.unwrap()[0].fresh);
    let again = write(&outbox.store, row()).await.unwrap();
    assert!(!again[0].fresh && again[0].id.as_str() == "same");
}

/// PBX-024
#[tokio::test]
async fn transactions_that_wait_share_a_commit_and_fail_alone() {
    let outbox = Outbox::new().await;
    let (store, other) = (outbox.store.clone(), outbox.connection());
    let (release, held) = sync_channel::<()>(0);
    let seen = [(); 6].map(|()| Seen::default());
    let (first, second, third, fourth, fifth, ()) = tokio::join!(
        transact(&store, &seen[0], move |_| Ok(held.recv().is_ok())),
        transact(&store, &seen[1], place_order(&store, 2)),
        transact(&store, &seen[2], {
            let store = store.clone();
            move |tx| {
                place_order(&store, 3)(tx)?;
                Err::<(), _>(no("I fail"))
            }
        }),
        transact(&store, &seen[3], {
            let store = store.clone();
            move |tx| -> Result<(), StoreError> {
                place_order(&store, 4)(tx)?;
                panic!("a bug of the user's");
            }
        }),
        transact(&store, &seen[4], {
            let store = store.clone();
            move |tx| {
                place_order(&store, 5)(tx)?;
                let mine: i64 = tx.query_row("SELECT count(*) FROM orders", [], |row| row.get(0)).unwrap();
                let others: i64 =
                    other.query_row("SELECT count(*) FROM orders", [], |row| row.get(0)).unwrap();
                Ok((mine, others))
            }
        }),
        async { release.send(()).unwrap() },
    );
    assert!(first.unwrap());
    second.unwrap();
    assert!(matches!(third, Err(TransactError::Body(_))));
    assert!(matches!(fourth, Err(TransactError::Panicked)));
    assert_eq!(fifth.unwrap(), (2, 0), "the fifth ran in the second's transaction, not yet committed");
    let ids: Vec<_> = fetch_all(&store).await.rows.iter().map(|row| row.id.to_string()).collect();
    assert_eq!(ids, ["order-2", "order-5"]);
    let ends: Vec<_> = seen[..5].iter().map(Seen::all).collect();
    assert_eq!(ends, [["committed"], ["committed"], ["failed"], ["failed"], ["committed"]]);
}

/// PBX-024
#[tokio::test]
async fn a_body_can_not_end_its_transaction() {
    let outbox = Outbox::new().await;
    for sql in ["COMMIT", "ROLLBACK", "END", "BEGIN", "RELEASE pillarbox_job", "ROLLBACK TO pillarbox_job"] {
        let refused = transact(&outbox.store, &Seen::default(), move |tx| Ok(tx.execute_batch(sql).is_err()));
        assert!(refused.await.unwrap(), "{sql}");
    }
    transact(&outbox.store, &Seen::default(), place_order(&outbox.store, 1)).await.unwrap();
    assert_eq!(outbox.counts(), (1, 1));
}

/// PBX-024
#[tokio::test]
async fn a_transaction_that_was_ended_under_its_group_is_refused_to_all() {
    let outbox = Outbox::new().await;
    let store = &outbox.store;
    let (release, held) = sync_channel::<()>(0);
    let seen = [(); 3].map(|()| Seen::default());
    let (first, second, third, ()) = tokio::join!(
        transact(store, &seen[0], move |_| Ok(held.recv().is_ok())),
        transact(store, &seen[1], place_order(store, 1)),
        transact(store, &seen[2], |tx| {
            tx.execute("INSERT OR ROLLBACK INTO orders VALUES (1)", []).unwrap_err();
            Ok(())
        }),
        async { release.send(()).unwrap() },
    );
    for end in [first.map(drop), second.map(drop), third] {
        assert!(matches!(end, Err(TransactError::Commit(CommitError::Refused(_)))), "{end:?}");
    }
    assert_eq!(outbox.counts(), (0, 0));
    assert!(seen.iter().all(|seen| seen.all() == ["failed"]));
    write(store, vec![event("next")]).await.unwrap();
}

/// PBX-024
#[tokio::test]
async fn a_commit_behind_the_stores_back_is_unknown_to_all() {
    let outbox = Outbox::new().await;
    let seen = Seen::default();
    let end = transact(&outbox.store, &seen, |tx| {
        tx.authorizer(None::<fn(rusqlite::hooks::AuthContext<'_>) -> _>).unwrap();
        tx.execute("INSERT INTO orders VALUES (1)", []).unwrap();
        tx.execute_batch("COMMIT").unwrap();
        Ok(())
    });
    assert!(matches!(end.await, Err(TransactError::Commit(CommitError::Unknown(_)))));
    assert_eq!(seen.all(), ["unknown"]);
}

/// EVT-022, PBX-024: the rows may be there, so no callback may say that they are not.
#[tokio::test]
async fn an_unknown_commit_runs_no_callback_of_the_transaction() {
    let outbox = Outbox::new().await;
    let (ends, writer) = (Arc::new(Mutex::new(Vec::new())), Writer::new(Arc::new(outbox.store.clone())));
    let noted = Arc::clone(&ends);
    let end = writer.transaction(move |tx| {
        let (commits, rollbacks) = (Arc::clone(&noted), noted);
        tx.after_commit(move || commits.lock().unwrap().push("commit"));
        tx.after_rollback(move || rollbacks.lock().unwrap().push("rollback"));
        tx.authorizer(None::<fn(rusqlite::hooks::AuthContext<'_>) -> _>).unwrap();
        tx.execute_batch("COMMIT").unwrap();
        Ok::<_, StoreError>(())
    });
    assert!(matches!(end.await, Err(TransactError::Commit(CommitError::Unknown(_)))));
    assert!(ends.lock().unwrap().is_empty());
}

/// PBX-024
#[tokio::test]
async fn a_commit_that_a_deferred_key_refuses_is_refused() {
    let outbox = Outbox::new().await;
    let tables = "CREATE TABLE line (o INTEGER REFERENCES orders (id) DEFERRABLE INITIALLY DEFERRED)";
    outbox.connection().execute_batch(tables).unwrap();
    let (seen, store) = (Seen::default(), outbox.store.clone());
    let end = transact(&outbox.store, &seen, move |tx| {
        store.insert_blocking(tx, &[event("a")])?;
        tx.execute("INSERT INTO line VALUES (7)", []).unwrap();
        Ok(())
    });
    assert!(matches!(end.await, Err(TransactError::Commit(CommitError::Refused(_)))));
    assert_eq!((outbox.counts(), seen.all()), ((0, 0), vec!["failed"]));
}

/// EVT-020
#[tokio::test]
async fn a_transaction_that_has_ended_takes_no_rows() {
    let outbox = Outbox::new().await;
    let mut connection: Connection = outbox.connection();
    let tx = connection.transaction().unwrap();
    tx.execute_batch("COMMIT").unwrap();
    let error = outbox.store.insert_blocking(&tx, &[event("a")]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

#[tokio::test]
async fn a_caller_that_stops_waiting_changes_nothing_half_way() {
    let outbox = Outbox::new().await;
    let (release, held) = sync_channel::<()>(0);
    let seen = Seen::default();
    {
        let blocker = transact(&outbox.store, &Seen::default(), move |_| Ok(held.recv().is_ok()));
        let dropped = transact(&outbox.store, &seen, place_order(&outbox.store, 1));
        let (blocked, ()) = tokio::join!(blocker, async {
            tokio::select! {
                biased;
                _ = dropped => unreachable!("the writer is held"),
                () = std::future::ready(()) => release.send(()).unwrap(),
            }
        });
        assert!(blocked.unwrap());
    }
    write(&outbox.store, vec![event("behind it")]).await.unwrap();
    assert_eq!((outbox.counts(), seen.all()), ((2, 1), vec!["committed"]));
}

#[tokio::test]
async fn a_transaction_that_is_never_awaited_has_failed() {
    let outbox = Outbox::new().await;
    let seen = Seen::default();
    drop(transact(&outbox.store, &seen, place_order(&outbox.store, 1)));
    assert_eq!((outbox.counts(), seen.all()), ((0, 0), vec!["failed"]));
    assert!(outbox.store.facts().transactions);
}

/// PBX-027
#[tokio::test]
async fn events_are_taken_back_if_and_only_if_the_transaction_commits() {
    let outbox = Outbox::new().await;
    write(&outbox.store, vec![event("a"), event("b")]).await.unwrap();
    let mut connection = outbox.connection();
    let cancel = Cancel { ids: ["a", "own", "none"].map(id).to_vec(), by: "clerk".to_owned(), now: None };
    for keep in [false, true] {
        let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
        outbox.store.insert_blocking(&tx, &[event("own")]).unwrap();
        assert_eq!(outbox.store.cancel_blocking(&tx, &cancel).unwrap(), ["a", "own"].map(id));
        if keep {
            tx.commit().unwrap()
        } else {
            tx.rollback().unwrap()
        }
        let left = fetch_all(&outbox.store).await.rows;
        assert_eq!(left.len(), if keep { 1 } else { 2 });
        let audit = outbox.store.admin().audit(10).await.unwrap();
        assert_eq!(audit.len(), if keep { 2 } else { 0 }, "the record commits with the transaction");
    }
}

/// PBX-027
#[tokio::test]
async fn events_are_taken_back_on_the_writer_thread_too() {
    let outbox = Outbox::new().await;
    write(&outbox.store, vec![event("a")]).await.unwrap();
    let store = outbox.store.clone();
    let cancelled = transact(&outbox.store, &Seen::default(), move |tx| {
        let cancel = Cancel { ids: vec![id("a")], by: "clerk".to_owned(), now: None };
        store.cancel_blocking(tx, &cancel)
    });
    assert_eq!(cancelled.await.unwrap(), [id("a")]);
    assert!(fetch_all(&outbox.store).await.rows.is_empty());
}

/// EVT-032
#[tokio::test]
async fn a_callback_that_panics_reaches_neither_the_caller_nor_the_writer() {
    struct Panics;
    impl Body<SqliteTransaction> for Panics {
        type Output = ();
        type Error = StoreError;

        fn run(&mut self, tx: &SqliteTransaction) -> Result<(), TransactError<StoreError>> {
            tx.execute("INSERT INTO orders DEFAULT VALUES", []).unwrap();
            Ok(())
        }

        fn committed(&mut self) {
            panic!("after the commit");
        }

        fn failed(&mut self) {}

        fn unknown(&mut self) {}
    }
    let outbox = Outbox::new().await;
    outbox.store.transact(Panics).await.unwrap();
    write(&outbox.store, vec![event("next")]).await.unwrap();
    assert_eq!(outbox.counts(), (1, 1));
}

#[tokio::test]
async fn only_done_marks_are_less_durable_than_the_store_is_set() {
    let outbox = Outbox::new().await;
    let level = || {
        transact(&outbox.store, &Seen::default(), |tx| {
            Ok(tx.query_row("PRAGMA synchronous", [], |row| row.get::<_, i64>(0)).unwrap())
        })
    };
    const FULL: i64 = 2;
    assert_eq!(level().await.unwrap(), FULL);
    let written = write(&outbox.store, vec![event("a")]).await.unwrap();
    outbox.store.settle(done(&written)).await.unwrap();
    assert_eq!(level().await.unwrap(), FULL);
}
