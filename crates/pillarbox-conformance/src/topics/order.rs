//! Order that survives late commits, retries and parked groups.

use std::collections::BTreeSet;

use pillarbox::model::Seq;
use pillarbox::port::{Change, Cursor, Fetch, Scope};

use crate::case::{Case, Checked, cases};
use crate::harness::{Ending, Fixture};
use crate::kit::*;

pub(crate) fn cases() -> Vec<Case> {
    cases!("order";
        Nothing:
            what_is_written_after_a_commit_has_a_higher_number,
            a_failed_head_keeps_its_place,
            a_parked_group_is_read_from_where_it_was_left;
        ConcurrentWriters:
            the_cursor_does_not_pass_a_transaction_that_may_still_commit,
            a_cut_read_does_not_pass_an_open_transaction_either,
            a_transaction_that_rolled_back_holds_nothing_up,
            transactions_that_commit_in_any_order_lose_nothing,
            a_transaction_begun_after_a_commit_comes_after_it,
    )
}

/// PBX-010
async fn what_is_written_after_a_commit_has_a_higher_number(t: Fixture) -> Checked {
    let mut last = Seq(0);
    for n in 0..20 {
        let rows = grouped("g", &[format!("e{n}").as_str()]);
        let store = if n % 2 == 0 { &t.store } else { &t.beside };
        let written = store.write(pillarbox::port::Write { rows, now: Some(at(20 - n)) }).await?;
        assert!(written[0].seq > last, "numbers follow commits, not clocks");
        last = written[0].seq;
    }
    let names: Vec<String> = (0..20).map(|n| format!("e{n}")).collect();
    assert_eq!(ids(&t.pending().await?), names);
    Ok(())
}

/// PBX-010
async fn a_failed_head_keeps_its_place(t: Fixture) -> Checked {
    t.write(grouped("g", &["a", "b"]), at(0)).await?;
    let before = t.record("a").await?;
    t.apply("a", retry(secs(60)), at(1)).await?;
    t.apply("a", Change::Attempt { attempts: 2 }, at(2)).await?;
    let after = t.record("a").await?;
    assert_eq!((after.seq, after.slot), (before.seq, before.slot));
    assert_eq!(ids(&t.pending().await?), ["a", "b"]);
    Ok(())
}

/// PBX-010
async fn a_parked_group_is_read_from_where_it_was_left(t: Fixture) -> Checked {
    t.write(grouped("g", &["a"]), at(0)).await?;
    t.write(grouped("h", &["x"]), at(0)).await?;
    t.write(grouped("g", &["b"]), at(0)).await?;
    let (parked, slot) = (t.record("a").await?.seq, t.record("a").await?.slot);
    let fetched = t.read(Cursor::default(), at(0)).await?;
    t.write(grouped("g", &["c"]), at(1)).await?;
    let beyond = t.read(fetched.cursor, at(1)).await?;
    assert!(ids(&beyond.rows).contains(&"c"));
    let scope = Scope::Group { slot, group: group("g"), from: parked };
    assert_eq!(ids(&t.native().fetch(fetch(scope, at(1))).await?.rows), ["a", "b", "c"]);
    Ok(())
}

/// PBX-010, PBX-024
async fn the_cursor_does_not_pass_a_transaction_that_may_still_commit(t: Fixture) -> Checked {
    let mut late = t.open.as_ref().expect("open transactions").begin().await?;
    let drawn = late.insert(plain(&["late"])).await?[0].seq;
    let early = t.write(plain(&["early"]), at(0)).await?[0].seq;
    assert!(drawn < early, "numbers are drawn when rows are inserted");
    let mut cursor = Cursor::default();
    for _ in 0..5 {
        let fetched = t.read(cursor, at(0)).await?;
        assert_eq!(ids(&fetched.rows), ["early"], "what is above the cursor comes again until it is decided");
        assert!(fetched.cursor.decided < drawn, "the cursor passed an open transaction");
        cursor = fetched.cursor;
    }
    late.end(Ending::Commit).await?;
    assert_eq!(ids(&t.read(cursor, at(0)).await?.rows), ["late", "early"]);
    Ok(())
}

/// PBX-010
async fn a_cut_read_does_not_pass_an_open_transaction_either(t: Fixture) -> Checked {
    let mut late = t.open.as_ref().expect("open transactions").begin().await?;
    late.insert(plain(&["late"])).await?;
    t.write(plain(&["a", "b", "c"]), at(0)).await?;
    let scope = Scope::Slots { slots: t.every_slot(), cursor: Cursor::default() };
    let cut = t.native().fetch(Fetch { rows: 2, ..fetch(scope, at(0)) }).await?;
    assert!(cut.more);
    late.end(Ending::Commit).await?;
    assert!(ids(&t.read(cut.cursor, at(0)).await?.rows).contains(&"late"));
    Ok(())
}

/// PBX-010
async fn a_transaction_that_rolled_back_holds_nothing_up(t: Fixture) -> Checked {
    let mut tx = t.open.as_ref().expect("open transactions").begin().await?;
    tx.insert(plain(&["never"])).await?;
    let last = t.write(plain(&["a"]), at(0)).await?[0].seq;
    let mut cursor = t.read(Cursor::default(), at(0)).await?.cursor;
    tx.end(Ending::Rollback).await?;
    for _ in 0..5 {
        cursor = t.read(cursor, at(0)).await?.cursor;
    }
    assert!(cursor.decided >= last, "the cursor stays at {}", cursor.decided);
    Ok(())
}

/// PBX-010
async fn transactions_that_commit_in_any_order_lose_nothing(t: Fixture) -> Checked {
    let mut open = Vec::new();
    for n in 0..6 {
        let mut tx = t.open.as_ref().expect("open transactions").begin().await?;
        tx.insert(plain(&[format!("a{n}").as_str()])).await?;
        open.push(tx);
    }
    for (n, tx) in open.iter_mut().enumerate() {
        tx.insert(plain(&[format!("b{n}").as_str()])).await?;
    }
    let (mut cursor, mut seen) = (Cursor::default(), BTreeSet::new());
    for next in [3, 0, 3, 1, 0, 0] {
        open.remove(next).end(Ending::Commit).await?;
        let fetched = t.read(cursor, at(0)).await?;
        seen.extend(fetched.rows.iter().map(|row| row.id.to_string()));
        cursor = fetched.cursor;
    }
    assert_eq!(seen.len(), 12, "only {seen:?} were seen");
    Ok(())
}

/// PBX-010
async fn a_transaction_begun_after_a_commit_comes_after_it(t: Fixture) -> Checked {
    let mut open = t.open.as_ref().expect("open transactions").begin().await?;
    open.insert(plain(&["beside"])).await?;
    let first = t.write(grouped("g", &["a"]), at(0)).await?[0].seq;
    let mut tx = t.open.as_ref().expect("open transactions").begin().await?;
    let second = tx.insert(grouped("g", &["b"])).await?[0].seq;
    tx.end(Ending::Commit).await?;
    assert!(first < second);
    open.end(Ending::Commit).await?;
    Ok(())
}
