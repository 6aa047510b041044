//! Writing in a transaction: rows are there if and only if it committed.

use pillarbox::model::{EventId, NewRow, Written};
use pillarbox::port::{Cancel, Change, ClaimFrom, Cursor, ErrorKind, StoreError};

use crate::case::{Case, Checked, cases};
use crate::harness::{Ending, Fixture, Work, Worked};
use crate::kit::*;

pub(crate) fn cases() -> Vec<Case> {
    cases!("transaction";
        Transactions:
            committed_rows_are_there,
            rolled_back_rows_are_not,
            a_conflict_leaves_nothing_of_the_transaction,
            message_ids_are_known_in_transactions_too,
            events_cancelled_in_a_transaction_go_with_its_commit,
            a_rolled_back_cancel_takes_nothing_back,
            what_a_transaction_wrote_it_can_cancel,
            a_transaction_cancels_pending_events_only;
        ConcurrentWriters:
            rows_of_an_open_transaction_are_not_seen,
            several_inserts_of_one_transaction_appear_together,
    )
}

type Answered<T> = Result<T, StoreError>;

async fn work(t: &Fixture, work: Work) -> Answered<Worked> {
    t.transactions.as_ref().expect("transactions").work(work).await
}

async fn write(t: &Fixture, rows: Vec<NewRow>, ending: Ending) -> Answered<Vec<Written>> {
    Ok(work(t, Work::rows(rows, ending)).await?.written)
}

async fn cancel(t: &Fixture, rows: Vec<NewRow>, ids: &[&str], ending: Ending) -> Answered<Vec<EventId>> {
    let ids = ids.iter().map(|text| id(text)).collect();
    let cancel = Some(Cancel { ids, by: "ann".to_owned(), now: Some(at(5)) });
    let mut cancelled = work(t, Work { cancel, ..Work::rows(rows, ending) }).await?.cancelled;
    cancelled.sort_unstable();
    Ok(cancelled)
}

/// EVT-021
async fn committed_rows_are_there(t: Fixture) -> Checked {
    let written = write(&t, plain(&["a", "b"]), Ending::Commit).await?;
    assert!(written.iter().all(|one| one.fresh) && written[0].seq < written[1].seq);
    assert_eq!(ids(&t.pending().await?), ["a", "b"]);
    assert_eq!(t.record("b").await?.seq, written[1].seq);
    Ok(())
}

/// EVT-021, PBX-024
async fn rolled_back_rows_are_not(t: Fixture) -> Checked {
    write(&t, plain(&["a"]), Ending::Rollback).await?;
    assert!(t.find("a").await?.is_none());
    let written = write(&t, plain(&["a"]), Ending::Commit).await?;
    assert!(written[0].fresh, "the id is free");
    Ok(())
}

/// EVT-021
async fn a_conflict_leaves_nothing_of_the_transaction(t: Fixture) -> Checked {
    t.write(plain(&["a"]), at(0)).await?;
    let error = write(&t, plain(&["b", "a"]), Ending::Commit).await.expect_err("the same id twice");
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert_eq!(ids(&t.pending().await?), ["a"]);
    Ok(())
}

/// EVT-042
async fn message_ids_are_known_in_transactions_too(t: Fixture) -> Checked {
    let row = |id| in_slot(event(id).message_id("m"));
    write(&t, vec![row("a")], Ending::Rollback).await?;
    let first = write(&t, vec![row("b"), row("c")], Ending::Commit).await?;
    let second = write(&t, vec![row("d")], Ending::Commit).await?;
    assert_eq!([&first[0], &first[1], &second[0]].map(|one| one.fresh), [true, false, false]);
    assert_eq!(second[0].id, id("b"));
    Ok(())
}

/// EVT-021, PBX-024
async fn rows_of_an_open_transaction_are_not_seen(t: Fixture) -> Checked {
    let mut tx = t.open.as_ref().expect("open transactions").begin().await?;
    tx.insert(plain(&["a"])).await?;
    assert!(t.find("a").await?.is_none());
    assert!(t.read(Cursor::default(), at(0)).await?.rows.is_empty());
    tx.end(Ending::Rollback).await?;
    assert!(t.find("a").await?.is_none());
    Ok(())
}

/// EVT-021
async fn several_inserts_of_one_transaction_appear_together(t: Fixture) -> Checked {
    let mut tx = t.open.as_ref().expect("open transactions").begin().await?;
    tx.insert(plain(&["a"])).await?;
    tx.insert(plain(&["b"])).await?;
    assert!(t.pending().await?.is_empty());
    tx.end(Ending::Commit).await?;
    assert_eq!(ids(&t.pending().await?), ["a", "b"]);
    Ok(())
}

/// PBX-027
async fn events_cancelled_in_a_transaction_go_with_its_commit(t: Fixture) -> Checked {
    t.write(plain(&["a", "b"]), at(0)).await?;
    let cancelled = cancel(&t, plain(&["c"]), &["a", "unknown"], Ending::Commit).await?;
    assert_eq!(cancelled, [id("a")]);
    assert_eq!(ids(&t.pending().await?), ["b", "c"]);
    let audit = t.store.admin().audit(9).await?;
    assert_eq!(audit.len(), 1);
    assert_eq!((audit[0].action.as_str(), audit[0].target.as_str(), audit[0].at), ("cancel", "a", at(5)));
    Ok(())
}

/// PBX-027
async fn a_rolled_back_cancel_takes_nothing_back(t: Fixture) -> Checked {
    t.write(plain(&["a"]), at(0)).await?;
    assert_eq!(cancel(&t, vec![], &["a"], Ending::Rollback).await?, [id("a")]);
    assert_eq!(ids(&t.pending().await?), ["a"]);
    assert!(t.store.admin().audit(9).await?.is_empty(), "what did not happen is not on record");
    assert_eq!(cancel(&t, vec![], &["a"], Ending::Commit).await?, [id("a")]);
    Ok(())
}

/// PBX-027
async fn what_a_transaction_wrote_it_can_cancel(t: Fixture) -> Checked {
    let cancelled = cancel(&t, plain(&["a", "b"]), &["b"], Ending::Commit).await?;
    assert_eq!(cancelled, [id("b")]);
    assert_eq!(ids(&t.pending().await?), ["a"]);
    assert!(t.write(plain(&["b"]), at(9)).await?[0].fresh, "its id is free");
    Ok(())
}

/// PBX-027
async fn a_transaction_cancels_pending_events_only(t: Fixture) -> Checked {
    t.write(plain(&["claimed", "done"]), at(0)).await?;
    t.apply("done", Change::Done, at(1)).await?;
    t.claim(ClaimFrom::Events, "ann", 9, at(1)).await?;
    assert_eq!(cancel(&t, vec![], &["claimed", "done"], Ending::Commit).await?, []);
    assert!(t.find("claimed").await?.is_some() && t.find("done").await?.is_some());
    Ok(())
}
