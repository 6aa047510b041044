//! Writing in a transaction: rows are there if and only if it committed.

use pillarbox::port::{Cursor, ErrorKind};

use crate::case::{Case, Checked, cases};
use crate::harness::{Ending, Fixture};
use crate::kit::*;

pub(crate) fn cases() -> Vec<Case> {
    cases!("transaction";
        Transactions:
            committed_rows_are_there,
            rolled_back_rows_are_not,
            a_conflict_leaves_nothing_of_the_transaction,
            message_ids_are_known_in_transactions_too;
        ConcurrentWriters:
            rows_of_an_open_transaction_are_not_seen,
            several_inserts_of_one_transaction_appear_together,
    )
}

async fn write(
    t: &Fixture,
    rows: Vec<pillarbox::model::NewRow>,
    ending: Ending,
) -> Result<Vec<pillarbox::model::Written>, pillarbox::port::StoreError> {
    t.transactions.as_ref().expect("transactions").write(rows, ending).await
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
