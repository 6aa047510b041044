//! The flowcatalyst layout: items are taken by status and time, and settled by the leader that took them.

use jiff::Timestamp;
use pillarbox::model::{Event, EventId, NewRow, Placement, Status, Token};
use pillarbox::port::{Change, Counts, ErrorKind, Fence, OnDone, Settle, Settled, StoreError, Take, Write};

use crate::case::{Case, Checked, cases};
use crate::harness::{Ending, Fixture, ItemRow, Planted, Work, items};
use crate::item_kit::*;
use crate::kit::*;

pub(crate) fn cases() -> Vec<Case> {
    cases!("flowcatalyst";
    Items:
        written_items_have_the_columns_of_the_layout,
        events_without_an_id_get_a_tsid_and_other_ids_are_refused,
        what_has_no_column_is_refused,
        an_id_that_is_there_is_a_conflict_and_nothing_is_written,
        taken_items_are_not_taken_again,
        done_completes_an_item,
        done_items_may_go_at_once,
        a_retry_counts_and_goes_back_to_pending,
        a_dead_item_has_failed_with_its_error,
        a_release_leaves_no_trace_but_the_time,
        an_attempt_counts_and_keeps_the_claim,
        an_attempt_that_was_not_made_is_taken_back,
        an_outcome_that_is_settled_twice_counts_once,
        what_waits_keeps_its_error_and_its_claim,
        outcomes_come_in_lists_and_stale_ones_are_named,
        nothing_is_settled_without_its_claim,
        a_node_that_is_gone_settles_nothing,
        a_stale_settle_after_a_recovery_and_a_take_in_the_same_second_changes_nothing,
        tokens_only_grow_also_within_one_moment,
        odd_rows_of_others_are_set_aside_and_stop_nothing;
    ItemTransactions:
        items_come_and_go_with_their_transaction;
    )
}

/// The first attempt has failed.
fn retry_counted() -> Change {
    retry(secs(9))
}

fn dead_counted(blocks: Option<&str>) -> Change {
    Change::Dead { error: "never".to_owned(), counts: Counts::Made(1), blocks: blocks.map(group) }
}

fn kind<T>(answer: Result<T, StoreError>) -> Option<ErrorKind> {
    answer.err().map(|error| error.kind())
}

/// RLY-003, RLY-006
async fn written_items_have_the_columns_of_the_layout(t: Fixture) -> Checked {
    let payload = "{ \"ä\" : [1,  2] }";
    let event = Event::text("EVENT", payload).id(tsid(1)).group("order-123");
    let written = t.write(vec![row(event), row(item(2).aggregate("Order", 7))], at(5)).await?;
    assert!(written.iter().all(|one| one.fresh && !one.delayed));
    let expected = ItemRow {
        id: tsid(1),
        item_type: "EVENT".to_owned(),
        message_group: Some("order-123".to_owned()),
        payload: Some(payload.to_owned()),
        status: "PENDING".to_owned(),
        retry_count: 0,
        created_at: at(5),
        processed_at: None,
        error_message: None,
    };
    assert_eq!(look(&t, 1).await?, expected);
    assert_eq!(look(&t, 2).await?.message_group.as_deref(), Some("Order/7"), "its group, as everywhere");
    Ok(())
}

/// RLY-004
async fn events_without_an_id_get_a_tsid_and_other_ids_are_refused(t: Fixture) -> Checked {
    let event = Event::text("EVENT", "{}").build_within(&t.store.facts().limits).expect("a valid event");
    assert_eq!(event.id().as_str().len(), 13);
    let placement = Placement::Slot;
    let written = t.write(vec![NewRow { event: event.clone(), placement }], at(0)).await?;
    assert_eq!((&written[0].id, written[0].seq.0 > 0), (event.id(), true));
    let other = vec![row(item(1)), row(Event::text("EVENT", "{}"))];
    assert_eq!(kind(t.write(other, at(0)).await), Some(ErrorKind::InvalidInput));
    assert!(t.foreign.look(&tsid(1)).await?.is_none(), "all or none");
    Ok(())
}

/// RLY-003, RLY-005
async fn what_has_no_column_is_refused(t: Fixture) -> Checked {
    for builder in [
        item(1).header("a", "b"),
        item(1).message_id("m"),
        item(1).tenant("t"),
        item(1).due(secs(5)),
        Event::text("order.placed", "{}").id(tsid(1)),
        Event::text("DISPATCH_JOB", "{}").id(tsid(1)),
    ] {
        assert_eq!(kind(t.write(vec![row(builder)], at(0)).await), Some(ErrorKind::InvalidInput));
    }
    let queued = NewRow { placement: Placement::Queue, ..row(item(1)) };
    assert_eq!(kind(t.write(vec![queued], at(0)).await), Some(ErrorKind::InvalidInput));
    t.join(1, at(0)).await?;
    assert!(take_all(&t, 9).await?.is_empty());
    Ok(())
}

/// RLY-003
async fn an_id_that_is_there_is_a_conflict_and_nothing_is_written(t: Fixture) -> Checked {
    t.write(vec![row(item(1))], at(0)).await?;
    let again = t.write(vec![row(item(2)), row(item(1))], at(1)).await;
    assert_eq!(kind(again), Some(ErrorKind::Conflict));
    assert!(t.foreign.look(&tsid(2)).await?.is_none());
    assert_eq!(look(&t, 1).await?.created_at, at(0));
    Ok(())
}

/// RLY-010
async fn taken_items_are_not_taken_again(t: Fixture) -> Checked {
    t.write((1..=5).map(|n| row(item(n))).collect(), at(0)).await?;
    t.join(1, at(0)).await?;
    assert!(taken(&t, Take { rows: 0, ..take(1, 1) }).await?.is_empty());
    assert_eq!(taken(&t, Take { rows: 2, ..take(1, 1) }).await?.len(), 2);
    assert_eq!(look(&t, 3).await?.status, "PENDING", "no more than asked for");
    assert_eq!(items(&t.beside).take(take(1, 900_000)).await?.rows.len(), 3);
    assert!(take_all(&t, 900_000).await?.is_empty(), "a take has no end of its own");
    Ok(())
}

/// RLY-006, RLY-013
async fn done_completes_an_item(t: Fixture) -> Checked {
    let first = written_and_taken(&t, 1, 1).await?;
    assert!(settle_one(&t, &first, retry_counted(), 2).await?);
    let second = take_all(&t, 3).await?.remove(0);
    assert!(settle_one(&t, &second, Change::Done, 5).await?);
    let stored = look(&t, 1).await?;
    assert_eq!((stored.status.as_str(), stored.processed_at), ("COMPLETED", Some(at(5))));
    assert_eq!((stored.retry_count, stored.error_message), (1, None));
    let record = t.record(&tsid(1)).await?;
    assert_eq!((record.status, record.done_at, record.attempts), (Status::Done, Some(at(5)), 2));
    assert!(!settle_one(&t, &second, retry_counted(), 6).await?, "done is final");
    Ok(())
}

/// RLY-013
async fn done_items_may_go_at_once(t: Fixture) -> Checked {
    let taken = written_and_taken(&t, 1, 1).await?;
    let settle = |token| Settle {
        fence: Fence::Open,
        outcomes: vec![pillarbox::port::Outcome { token, ..outcome(&taken, Change::Done) }].into(),
        on_done: OnDone::Delete,
        repeats: None,
        now: Some(at(2)),
    };
    assert_eq!(t.store.settle(settle(Token(taken.token.0 + 1))).await?.stale, [0]);
    assert_eq!(t.store.settle(settle(taken.token)).await?.stale, NONE);
    assert!(t.foreign.look(&tsid(1)).await?.is_none());
    Ok(())
}

/// RLY-006, RLY-013
async fn a_retry_counts_and_goes_back_to_pending(t: Fixture) -> Checked {
    let first = written_and_taken(&t, 1, 1).await?;
    assert!(settle_one(&t, &first, retry_counted(), 2).await?);
    let stored = look(&t, 1).await?;
    assert_eq!((stored.status.as_str(), stored.retry_count), ("PENDING", 1));
    assert_eq!((stored.error_message.as_deref(), stored.created_at), (Some("no"), at(0)));
    let second = take_all(&t, 3).await?.remove(0);
    assert_eq!((second.attempts, second.status), (2, Status::Retry));
    assert!(!settle_one(&t, &first, Change::Done, 4).await?, "the first claim is over");
    Ok(())
}

/// RLY-006, RLY-013
async fn a_dead_item_has_failed_with_its_error(t: Fixture) -> Checked {
    let taken = written_and_taken(&t, 1, 1).await?;
    assert!(settle_one(&t, &taken, dead_counted(None), 5).await?);
    let stored = look(&t, 1).await?;
    assert_eq!((stored.status.as_str(), stored.processed_at), ("FAILED", Some(at(5))));
    assert_eq!((stored.retry_count, stored.error_message.as_deref()), (0, Some("never")));
    let record = t.record(&tsid(1)).await?;
    assert_eq!((record.status, record.done_at, record.attempts), (Status::Dead, Some(at(5)), 1));
    assert!(take_all(&t, 99).await?.is_empty());
    Ok(())
}

/// PBX-013
async fn a_release_leaves_no_trace_but_the_time(t: Fixture) -> Checked {
    let first = written_and_taken(&t, 1, 1).await?;
    assert!(settle_one(&t, &first, Change::Release { attempts: 0 }, 2).await?);
    let stored = look(&t, 1).await?;
    assert_eq!((stored.status.as_str(), stored.retry_count), ("PENDING", 0));
    assert_eq!((stored.error_message, stored.processed_at), (None, Some(at(1))));
    assert_eq!(take_all(&t, 2).await?[0].attempts, 1);
    Ok(())
}

/// PBX-011
async fn an_attempt_counts_and_keeps_the_claim(t: Fixture) -> Checked {
    let taken = written_and_taken(&t, 1, 1).await?;
    assert!(settle_one(&t, &taken, Change::Attempt { attempts: 2 }, 2).await?);
    let stored = look(&t, 1).await?;
    assert_eq!(
        (stored.status.as_str(), stored.retry_count, stored.processed_at),
        ("PROCESSING", 1, Some(at(1)))
    );
    assert!(settle_one(&t, &taken, Change::Done, 3).await?);
    Ok(())
}

/// PBX-095
async fn what_waits_keeps_its_error_and_its_claim(t: Fixture) -> Checked {
    let taken = written_and_taken(&t, 1, 1).await?;
    let waits = Change::Waits { error: "connection refused".to_owned() };
    assert!(settle_one(&t, &taken, waits, 2).await?);
    let stored = look(&t, 1).await?;
    assert_eq!((stored.error_message.as_deref(), stored.retry_count), (Some("connection refused"), 0));
    assert_eq!((stored.status.as_str(), stored.processed_at), ("PROCESSING", Some(at(1))));
    assert!(settle_one(&t, &taken, Change::Done, 3).await?);
    Ok(())
}

/// PBX-060
async fn an_attempt_that_was_not_made_is_taken_back(t: Fixture) -> Checked {
    let taken = written_and_taken(&t, 1, 1).await?;
    assert!(settle_one(&t, &taken, Change::Attempt { attempts: 2 }, 2).await?);
    assert!(settle_one(&t, &taken, Change::Release { attempts: 0 }, 3).await?);
    let stored = look(&t, 1).await?;
    assert_eq!((stored.status.as_str(), stored.retry_count), ("PENDING", 0));
    Ok(())
}

/// PBX-220: the settle is repeated because its answer was lost.
async fn an_outcome_that_is_settled_twice_counts_once(t: Fixture) -> Checked {
    t.write((1..=4).map(|n| row(item(n))).collect(), at(0)).await?;
    t.join(1, at(0)).await?;
    let rows = take_all(&t, 1).await?;
    let changes = [
        Change::Attempt { attempts: 2 },
        retry_counted(),
        dead_counted(None),
        Change::Release { attempts: 0 },
    ];
    let outcomes: Vec<_> = rows.iter().zip(changes).map(|(row, change)| outcome(row, change)).collect();
    let fence = || Fence::Node(node(1));
    assert_eq!(t.settle(fence(), outcomes.clone(), at(2)).await?, Settled::all_but(vec![]));
    let (outcomes, on_done) = (outcomes.into(), OnDone::Keep);
    let again = Settle { fence: fence(), outcomes, on_done, repeats: Some(at(2)), now: Some(at(3)) };
    assert_eq!(t.store.settle(again).await?, Settled::all_but(vec![1, 2, 3]));
    let mut found = Vec::new();
    for number in 1..=4 {
        let stored = look(&t, number).await?;
        found.push((stored.status, stored.retry_count));
    }
    let expected = [("PROCESSING", 1), ("PENDING", 1), ("FAILED", 0), ("PENDING", 0)];
    assert_eq!(found, expected.map(|(status, retries)| (status.to_owned(), retries)));
    Ok(())
}

/// RLY-013
async fn outcomes_come_in_lists_and_stale_ones_are_named(t: Fixture) -> Checked {
    const ITEMS: usize = 600;
    t.write((0..ITEMS).map(|n| row(item(n))).collect(), at(0)).await?;
    t.join(1, at(0)).await?;
    let rows = take_all(&t, 1).await?;
    assert_eq!(rows.len(), ITEMS);
    let mut batch: Vec<_> = rows
        .iter()
        .enumerate()
        .map(|(place, row)| match place % 3 {
            0 => outcome(row, Change::Done),
            1 => outcome(row, retry_counted()),
            _ => outcome(row, dead_counted(None)),
        })
        .collect();
    batch[4].token = Token(1);
    batch[9].id = EventId::from_row("0HZXEQ5Y8JZZZ");
    let settled = t.settle(Fence::Open, batch, at(2)).await?;
    assert_eq!(settled, Settled::all_but(vec![4, 9]));
    let stats = t.store.admin().stats().await?;
    assert_eq!(stats.by_status(), [2, 199, 199, 200], "new, done, retry, dead");
    assert_eq!(t.settle(Fence::Open, vec![], at(2)).await?, Settled::all_but(vec![]));
    Ok(())
}

/// PBX-011
async fn nothing_is_settled_without_its_claim(t: Fixture) -> Checked {
    t.write(vec![row(item(1))], at(0)).await?;
    t.join(1, at(0)).await?;
    for fence in [Fence::Open, Fence::Node(node(1))] {
        let waiting = t.outcome(&tsid(1), Change::Done).await?;
        assert_eq!(t.settle(fence, vec![waiting], at(1)).await?.stale, [0]);
    }
    assert_eq!(look(&t, 1).await?.status, "PENDING");
    Ok(())
}

/// PBX-011, RLY-021
async fn a_node_that_is_gone_settles_nothing(t: Fixture) -> Checked {
    let taken = written_and_taken(&t, 1, 1).await?;
    let batch = || vec![outcome(&taken, Change::Done)];
    let gone = t.settle(Fence::Node(node(2)), batch(), at(1)).await?;
    assert_eq!(gone, Settled::lost(1));
    assert_eq!(look(&t, 1).await?.status, "PROCESSING");
    assert_eq!(t.settle(Fence::Node(node(1)), batch(), at(1)).await?, Settled::all_but(vec![]));
    Ok(())
}

/// RLY-010, RLY-014, PBX-011
async fn a_stale_settle_after_a_recovery_and_a_take_in_the_same_second_changes_nothing(
    t: Fixture,
) -> Checked {
    let old = written_and_taken(&t, 1, 1).await?;
    assert_eq!(t.items().recover(recover(1, 0, 2)).await?, 1);
    // A clock that stood still, or a column of whole seconds.
    let new = items(&t.beside).take(take(1, 1)).await?.rows.remove(0);
    assert!(new.token > old.token);
    let (release, attempt) = (Change::Release { attempts: 0 }, Change::Attempt { attempts: 2 });
    for change in [Change::Done, retry_counted(), dead_counted(Some("g")), release, attempt] {
        assert!(!settle_one(&t, &old, change, 2).await?);
    }
    let stored = look(&t, 1).await?;
    assert_eq!((stored.status.as_str(), stored.retry_count), ("PROCESSING", 0));
    assert!(settle_one(&t, &new, Change::Done, 2).await?);
    Ok(())
}

/// PBX-011
async fn tokens_only_grow_also_within_one_moment(t: Fixture) -> Checked {
    let mut last = written_and_taken(&t, 1, 5).await?;
    for change in [Change::Release { attempts: 0 }, retry_counted(), Change::Delay, dead_counted(None)] {
        let died = matches!(change, Change::Dead { .. });
        assert!(settle_one(&t, &last, change, 5).await?);
        if died {
            assert_eq!(t.replay(only(&[&tsid(1)]), at(5)).await?, 1);
        }
        let next = take_all(&t, 5).await?.remove(0);
        assert!(next.token > last.token, "{:?} after {:?}", next.token, last.token);
        last = next;
    }
    assert!(settle_one(&t, &last, Change::Release { attempts: 0 }, 5).await?);
    let now = taken(&t, Take { now: None, ..take(1, 0) }).await?.remove(0).token;
    let day = 86_400_000_000;
    let here = Timestamp::now().as_microsecond();
    assert!((here - day..here + day).contains(&now.0), "by the database's clock, in UTC");
    Ok(())
}

/// RLY-005, RLY-006
async fn odd_rows_of_others_are_set_aside_and_stop_nothing(t: Fixture) -> Checked {
    let plain = |number: usize| ItemRow {
        id: tsid(number),
        item_type: "EVENT".to_owned(),
        message_group: None,
        payload: Some("not json".to_owned()),
        status: "PENDING".to_owned(),
        retry_count: 0,
        created_at: at(number as i64),
        processed_at: None,
        error_message: None,
    };
    t.foreign.plant(ItemRow { item_type: "INVOICE".to_owned(), ..plain(1) }).await?;
    t.foreign.plant(ItemRow { status: "HELD".to_owned(), ..plain(2) }).await?;
    let missing = t.foreign.plant(ItemRow { payload: None, ..plain(3) }).await?;
    t.foreign.plant(ItemRow { id: "order-7".to_owned(), ..plain(4) }).await?;
    t.foreign.plant(plain(5)).await?;
    t.join(1, at(0)).await?;
    let taken = take_all(&t, 9).await?;
    let mut expected = vec![(tsid(1), false), ("order-7".to_owned(), true), (tsid(5), true)];
    if missing == Planted::Taken {
        expected.insert(1, (tsid(3), false));
    }
    let told: Vec<_> = taken.iter().map(|row| (row.id.to_string(), row.event.is_ok())).collect();
    assert_eq!(told, expected);
    for row in &taken {
        assert!(settle_one(&t, row, dead_counted(None), 10).await?, "{} can be set aside", row.id);
    }
    let list = pillarbox::port::List { limit: 9, ..pillarbox::port::List::default() };
    assert_eq!(t.store.admin().list(list).await?.len(), expected.len() + 1, "lists show all of them");
    assert!(t.record(&tsid(2)).await?.event.is_err());
    assert_eq!(look(&t, 2).await?.status, "HELD");
    Ok(())
}

/// RLY-001, RLY-003
async fn items_come_and_go_with_their_transaction(t: Fixture) -> Checked {
    let doors = t.transactions.clone().expect("stated");
    let work = |number, ending| Work::rows(vec![row(item(number)), row(item(number + 1))], ending);
    doors.work(work(1, Ending::Rollback)).await?;
    assert!(t.foreign.look(&tsid(1)).await?.is_none());
    let worked = doors.work(work(3, Ending::Commit)).await?;
    assert_eq!(worked.written.len(), 2);
    t.join(1, at(0)).await?;
    let taken = taken(&t, Take { now: None, ..take(1, 0) }).await?;
    assert_eq!(ids(&taken), [tsid(3), tsid(4)]);
    let refused =
        Work { rows: vec![row(item(5)), row(Event::text("EVENT", "{}"))], ..work(5, Ending::Commit) };
    assert_eq!(kind(doors.work(refused).await), Some(ErrorKind::InvalidInput));
    let cancel = pillarbox::port::Cancel { ids: vec![id(&tsid(6))], by: "ann".to_owned(), now: None };
    let taken_back = Work { cancel: Some(cancel), ..Work::rows(vec![row(item(6))], Ending::Commit) };
    assert_eq!(doors.work(taken_back).await?.cancelled, [id(&tsid(6))]);
    assert_eq!(t.store.write(Write { rows: vec![row(item(6))], now: None }).await?.len(), 1);
    Ok(())
}
