//! The flowcatalyst layout: items are claimed by status and time, and settled by who claimed them.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use pillarbox::model::{Event, EventBuilder, EventId, Lane, NewRow, Placement, Row, SlotSet, Status, Token};
use pillarbox::port::{
    Change, Claim, ClaimFrom, Counts, Cursor, ErrorKind, Fence, OnDone, Order, Promote, Reap, Scope, Settle,
    Settled, StoreError, Wait, Write,
};

use crate::case::{Case, Checked, cases};
use crate::harness::{Ending, Fixture, ItemRow, Planted, Work};
use crate::kit::*;

pub(crate) fn cases() -> Vec<Case> {
    cases!("flowcatalyst";
    Items:
        written_items_have_the_columns_of_the_layout,
        events_without_an_id_get_a_tsid_and_other_ids_are_refused,
        what_has_no_column_is_refused,
        an_id_that_is_there_is_a_conflict_and_nothing_is_written,
        items_are_claimed_in_the_order_of_group_time_and_id,
        a_claim_marks_items_as_processing_at_its_time,
        claimed_items_are_not_claimed_again,
        recent_items_are_not_claimed,
        two_claimers_never_share_an_item,
        done_completes_an_item,
        done_items_may_go_at_once,
        a_retry_counts_and_goes_back_to_pending,
        a_dead_item_has_failed_with_its_error,
        a_release_leaves_no_trace_but_the_time,
        an_attempt_counts_and_keeps_the_claim,
        an_attempt_that_was_not_made_is_taken_back,
        what_waits_keeps_its_error_and_its_claim,
        outcomes_come_in_lists_and_stale_ones_are_named,
        nothing_is_settled_without_its_claim,
        a_node_that_is_gone_settles_nothing,
        stuck_items_go_back_to_pending,
        a_stale_settle_after_a_reap_and_a_claim_in_the_same_second_changes_nothing,
        tokens_only_grow_also_within_one_moment,
        odd_rows_of_others_are_set_aside_and_stop_nothing,
        what_needs_numbers_is_unsupported,
        what_waits_can_be_read_without_a_claim;
    ItemTransactions:
        items_come_and_go_with_their_transaction;
    )
}

/// A TSID for a number.
pub(super) fn tsid(number: usize) -> String {
    const DIGITS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    let digit = |shift: usize| char::from(DIGITS[number >> shift & 31]);
    format!("0HZXEQ5Y8J{}{}{}", digit(10), digit(5), digit(0))
}

pub(super) fn item(number: usize) -> EventBuilder {
    Event::text("EVENT", "{}").id(tsid(number))
}

pub(super) fn row(builder: EventBuilder) -> NewRow {
    NewRow { event: builder.build().expect("a valid event"), placement: Placement::Slot }
}

pub(super) async fn claim_all(t: &Fixture, now: i64) -> Result<Vec<Row>, StoreError> {
    t.claim(ClaimFrom::Events, "ann", MANY, at(now)).await
}

/// Writes an item and claims it.
async fn claimed(t: &Fixture, number: usize, now: i64) -> Result<Row, StoreError> {
    t.write(vec![row(item(number))], at(0)).await?;
    Ok(claim_all(t, now).await?.remove(0))
}

pub(super) async fn look(t: &Fixture, number: usize) -> Result<ItemRow, StoreError> {
    let found = t.foreign.look(&tsid(number)).await?;
    Ok(found.unwrap_or_else(|| panic!("item {number} is gone")))
}

/// Settles one outcome by its owner; whether it changed the row.
async fn settle_one(t: &Fixture, row: &Row, change: Change, now: i64) -> Result<bool, StoreError> {
    let settled = t.settle(Fence::Owner(owner("ann")), vec![outcome(row, change)], at(now)).await?;
    Ok(settled.stale.is_empty())
}

fn retry_counted() -> Change {
    // The claim has counted the attempt.
    Change::Retry { delay: secs(9), error: "no".to_owned(), counts: Counts::None, wait: Wait::InPlace }
}

fn dead_counted(blocks: Option<&str>) -> Change {
    Change::Dead { error: "never".to_owned(), counts: Counts::None, blocks: blocks.map(group) }
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
    assert!(claim_all(&t, 9).await?.is_empty());
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

/// RLY-011, RLY-030
async fn items_are_claimed_in_the_order_of_group_time_and_id(t: Fixture) -> Checked {
    t.write(vec![row(item(7).group("b")), row(item(5).group("a"))], at(3)).await?;
    t.write(vec![row(item(9).group("a")), row(item(8).group("b")), row(item(6))], at(2)).await?;
    t.write(vec![row(item(3).group("a")), row(item(4).group("a")), row(item(2))], at(4)).await?;
    let claimed = claim_all(&t, 9).await?;
    let expected = [6, 2, 9, 5, 3, 4, 8, 7].map(tsid);
    assert_eq!(ids(&claimed), expected.each_ref().map(String::as_str));
    assert_eq!(claimed[0].group, None, "who delivers decides what no group means");
    assert_eq!(claimed[2].group, Some(group("a")));
    Ok(())
}

/// RLY-006, RLY-010, RLY-012
async fn a_claim_marks_items_as_processing_at_its_time(t: Fixture) -> Checked {
    let claimed = claimed(&t, 1, 5).await?;
    assert_eq!((claimed.token, claimed.attempts), (Token(at(5).as_microsecond()), 1));
    assert_eq!((claimed.status, claimed.created_at, claimed.available_at), (Status::New, at(0), at(0)));
    assert_eq!(claimed.event.as_ref().map(Event::event_type), Ok("EVENT"));
    let stored = look(&t, 1).await?;
    assert_eq!((stored.status.as_str(), stored.processed_at), ("PROCESSING", Some(at(5))));
    assert_eq!((stored.retry_count, stored.error_message), (0, None));
    Ok(())
}

/// RLY-010
async fn claimed_items_are_not_claimed_again(t: Fixture) -> Checked {
    t.write((1..=5).map(|n| row(item(n))).collect(), at(0)).await?;
    assert!(t.claim(ClaimFrom::Events, "ann", 0, at(1)).await?.is_empty());
    assert_eq!(t.claim(ClaimFrom::Events, "ann", 2, at(1)).await?.len(), 2);
    assert_eq!(look(&t, 3).await?.status, "PENDING", "no more than asked for");
    assert_eq!(t.beside.claim(claim(ClaimFrom::Events, "bob", MANY, at(900_000))).await?.len(), 3);
    assert!(claim_all(&t, 900_000).await?.is_empty(), "a claim has no end of its own");
    Ok(())
}

/// RLY-011
async fn recent_items_are_not_claimed(t: Fixture) -> Checked {
    t.write(vec![row(item(1))], at(8)).await?;
    t.write(vec![row(item(2))], at(0)).await?;
    let request = Claim { skip_recent: secs(5), ..claim(ClaimFrom::Events, "ann", MANY, at(9)) };
    assert_eq!(ids(&t.store.claim(request).await?), [tsid(2)]);
    Ok(())
}

/// RLY-010, RLY-012
async fn two_claimers_never_share_an_item(t: Fixture) -> Checked {
    const ITEMS: usize = 240;
    t.write((0..ITEMS).map(|n| row(item(n).group(format!("g{}", n % 7)))).collect(), at(0)).await?;
    let mut claimers = tokio::task::JoinSet::new();
    for number in 0..6 {
        let store = Arc::clone(if number % 2 == 0 { &t.store } else { &t.beside });
        claimers.spawn(async move {
            until_dry(|| {
                let store = Arc::clone(&store);
                let request = Claim { now: None, ..claim(ClaimFrom::Events, "x", 7, at(0)) };
                async move { store.claim(request).await }
            })
            .await
        });
    }
    each_once(claimers, ITEMS).await
}

/// RLY-006, RLY-013
async fn done_completes_an_item(t: Fixture) -> Checked {
    let first = claimed(&t, 1, 1).await?;
    assert!(settle_one(&t, &first, retry_counted(), 2).await?);
    let second = claim_all(&t, 3).await?.remove(0);
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
    let claimed = claimed(&t, 1, 1).await?;
    let settle = |token| Settle {
        fence: Fence::Open,
        outcomes: vec![pillarbox::port::Outcome { token, ..outcome(&claimed, Change::Done) }].into(),
        on_done: OnDone::Delete,
        now: Some(at(2)),
    };
    assert_eq!(t.store.settle(settle(Token(claimed.token.0 + 1))).await?.stale, [0]);
    assert_eq!(t.store.settle(settle(claimed.token)).await?.stale, NONE);
    assert!(t.foreign.look(&tsid(1)).await?.is_none());
    Ok(())
}

/// RLY-006, RLY-013
async fn a_retry_counts_and_goes_back_to_pending(t: Fixture) -> Checked {
    let first = claimed(&t, 1, 1).await?;
    assert!(settle_one(&t, &first, retry_counted(), 2).await?);
    let stored = look(&t, 1).await?;
    assert_eq!((stored.status.as_str(), stored.retry_count), ("PENDING", 1));
    assert_eq!((stored.error_message.as_deref(), stored.created_at), (Some("no"), at(0)));
    let second = claim_all(&t, 3).await?.remove(0);
    assert_eq!((second.attempts, second.status), (2, Status::Retry));
    assert!(!settle_one(&t, &first, Change::Done, 4).await?, "the first claim is over");
    Ok(())
}

/// RLY-006, RLY-013
async fn a_dead_item_has_failed_with_its_error(t: Fixture) -> Checked {
    let claimed = claimed(&t, 1, 1).await?;
    assert!(settle_one(&t, &claimed, dead_counted(None), 5).await?);
    let stored = look(&t, 1).await?;
    assert_eq!((stored.status.as_str(), stored.processed_at), ("FAILED", Some(at(5))));
    assert_eq!((stored.retry_count, stored.error_message.as_deref()), (0, Some("never")));
    let record = t.record(&tsid(1)).await?;
    assert_eq!((record.status, record.done_at, record.attempts), (Status::Dead, Some(at(5)), 1));
    assert!(claim_all(&t, 99).await?.is_empty());
    Ok(())
}

/// PBX-013
async fn a_release_leaves_no_trace_but_the_time(t: Fixture) -> Checked {
    let first = claimed(&t, 1, 1).await?;
    assert!(settle_one(&t, &first, Change::Release, 2).await?);
    let stored = look(&t, 1).await?;
    assert_eq!((stored.status.as_str(), stored.retry_count), ("PENDING", 0));
    assert_eq!((stored.error_message, stored.processed_at), (None, Some(at(1))));
    assert_eq!(claim_all(&t, 2).await?[0].attempts, 1);
    Ok(())
}

/// PBX-011
async fn an_attempt_counts_and_keeps_the_claim(t: Fixture) -> Checked {
    let claimed = claimed(&t, 1, 1).await?;
    assert!(settle_one(&t, &claimed, Change::Attempt, 2).await?);
    let stored = look(&t, 1).await?;
    assert_eq!(
        (stored.status.as_str(), stored.retry_count, stored.processed_at),
        ("PROCESSING", 1, Some(at(1)))
    );
    assert!(settle_one(&t, &claimed, Change::Done, 3).await?);
    Ok(())
}

/// PBX-095
async fn what_waits_keeps_its_error_and_its_claim(t: Fixture) -> Checked {
    let claimed = claimed(&t, 1, 1).await?;
    let waits = Change::Waits { error: "connection refused".to_owned() };
    assert!(settle_one(&t, &claimed, waits, 2).await?);
    let stored = look(&t, 1).await?;
    assert_eq!((stored.error_message.as_deref(), stored.retry_count), (Some("connection refused"), 0));
    assert_eq!((stored.status.as_str(), stored.processed_at), ("PROCESSING", Some(at(1))));
    assert!(settle_one(&t, &claimed, Change::Done, 3).await?);
    Ok(())
}

/// PBX-060
async fn an_attempt_that_was_not_made_is_taken_back(t: Fixture) -> Checked {
    let claimed = claimed(&t, 1, 1).await?;
    assert!(settle_one(&t, &claimed, Change::Attempt, 2).await?);
    assert!(settle_one(&t, &claimed, Change::Untried, 3).await?);
    let stored = look(&t, 1).await?;
    assert_eq!((stored.status.as_str(), stored.retry_count), ("PENDING", 0));
    Ok(())
}

/// RLY-013
async fn outcomes_come_in_lists_and_stale_ones_are_named(t: Fixture) -> Checked {
    const ITEMS: usize = 600;
    t.write((0..ITEMS).map(|n| row(item(n))).collect(), at(0)).await?;
    let rows = claim_all(&t, 1).await?;
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
    assert_eq!(stats.by_status, [2, 199, 199, 200], "new, done, retry, dead");
    assert_eq!(t.settle(Fence::Open, vec![], at(2)).await?, Settled::all_but(vec![]));
    Ok(())
}

/// PBX-011
async fn nothing_is_settled_without_its_claim(t: Fixture) -> Checked {
    t.write(vec![row(item(1))], at(0)).await?;
    for fence in [Fence::Open, Fence::Owner(owner("ann"))] {
        let waiting = t.outcome(&tsid(1), Change::Done).await?;
        assert_eq!(t.settle(fence, vec![waiting], at(1)).await?.stale, [0]);
    }
    assert_eq!(look(&t, 1).await?.status, "PENDING");
    Ok(())
}

/// PBX-011, RLY-021
async fn a_node_that_is_gone_settles_nothing(t: Fixture) -> Checked {
    let claimed = claimed(&t, 1, 1).await?;
    let batch = || vec![outcome(&claimed, Change::Done)];
    t.join(1, at(0)).await?;
    let gone = t.settle(Fence::Node(node(2)), batch(), at(1)).await?;
    assert_eq!(gone, Settled::lost(1));
    assert_eq!(look(&t, 1).await?.status, "PROCESSING");
    assert_eq!(t.settle(Fence::Node(node(1)), batch(), at(1)).await?, Settled::all_but(vec![]));
    Ok(())
}

async fn reap(t: &Fixture, rows: usize, now: i64) -> Result<u64, StoreError> {
    t.store.reap(Reap { older_than: secs(300), rows, now: Some(at(now)) }).await
}

/// RLY-014
async fn stuck_items_go_back_to_pending(t: Fixture) -> Checked {
    t.write((1..=3).map(|n| row(item(n))).collect(), at(0)).await?;
    let first = claim_all(&t, 1).await?;
    assert!(settle_one(&t, &first[2], Change::Done, 2).await?);
    assert_eq!(reap(&t, MANY, 301).await?, 0, "not longer than the time-out");
    assert_eq!(reap(&t, 1, 302).await?, 1);
    assert_eq!(reap(&t, MANY, 302).await?, 1);
    assert_eq!(reap(&t, MANY, 999).await?, 0);
    let stored = look(&t, 1).await?;
    assert_eq!(
        (stored.status.as_str(), stored.retry_count, stored.processed_at),
        ("PENDING", 0, Some(at(1)))
    );
    assert_eq!(look(&t, 3).await?.status, "COMPLETED");
    assert_eq!(claim_all(&t, 303).await?.len(), 2);
    let stuck = ItemRow { status: "PROCESSING".to_owned(), processed_at: None, ..look(&t, 3).await? };
    t.foreign.plant(ItemRow { id: tsid(4), ..stuck }).await?;
    assert_eq!(reap(&t, MANY, 400).await?, 1, "one without a time counts from when it was written");
    Ok(())
}

/// RLY-010, RLY-014, PBX-011
async fn a_stale_settle_after_a_reap_and_a_claim_in_the_same_second_changes_nothing(t: Fixture) -> Checked {
    let old = claimed(&t, 1, 1).await?;
    let request = Reap { older_than: Duration::ZERO, rows: MANY, now: Some(at(2)) };
    assert_eq!(t.store.reap(request).await?, 1);
    // A clock that stood still, or a column of whole seconds.
    let new = t.beside.claim(claim(ClaimFrom::Events, "bob", 1, at(1))).await?.remove(0);
    assert!(new.token > old.token);
    for change in [Change::Done, retry_counted(), dead_counted(Some("g")), Change::Release, Change::Attempt] {
        assert!(!settle_one(&t, &old, change, 2).await?);
    }
    let stored = look(&t, 1).await?;
    assert_eq!((stored.status.as_str(), stored.retry_count), ("PROCESSING", 0));
    assert!(settle_one(&t, &new, Change::Done, 2).await?);
    Ok(())
}

/// PBX-011
async fn tokens_only_grow_also_within_one_moment(t: Fixture) -> Checked {
    let mut last = claimed(&t, 1, 5).await?;
    for change in [Change::Release, retry_counted(), Change::Delay, dead_counted(None)] {
        let died = matches!(change, Change::Dead { .. });
        assert!(settle_one(&t, &last, change, 5).await?);
        if died {
            assert_eq!(t.replay(only(&[&tsid(1)]), at(5)).await?, 1);
        }
        let next = claim_all(&t, 5).await?.remove(0);
        assert!(next.token > last.token, "{:?} after {:?}", next.token, last.token);
        last = next;
    }
    let request = Claim { now: None, ..claim(ClaimFrom::Events, "ann", 1, at(0)) };
    assert!(settle_one(&t, &last, Change::Release, 5).await?);
    let now = t.store.claim(request).await?.remove(0).token;
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
    let claimed = claim_all(&t, 9).await?;
    let mut expected = vec![(tsid(1), false), ("order-7".to_owned(), true), (tsid(5), true)];
    if missing == Planted::Taken {
        expected.insert(1, (tsid(3), false));
    }
    let told: Vec<_> = claimed.iter().map(|row| (row.id.to_string(), row.event.is_ok())).collect();
    assert_eq!(told, expected);
    for row in &claimed {
        assert!(settle_one(&t, row, dead_counted(None), 10).await?, "{} can be set aside", row.id);
    }
    let list = pillarbox::port::List { limit: 9, ..pillarbox::port::List::default() };
    assert_eq!(t.store.admin().list(list).await?.len(), expected.len() + 1, "lists show all of them");
    assert!(t.record(&tsid(2)).await?.event.is_err());
    assert_eq!(look(&t, 2).await?.status, "HELD");
    Ok(())
}

/// RLY-012
async fn what_needs_numbers_is_unsupported(t: Fixture) -> Checked {
    t.write(vec![row(item(1))], at(0)).await?;
    let slots = Scope::Slots { slots: t.every_slot(), cursor: Cursor::default() };
    let in_group =
        Scope::Group { slot: pillarbox::model::Slot(0), group: group("g"), from: pillarbox::model::Seq(0) };
    for scope in [slots, in_group] {
        assert_eq!(kind(t.store.fetch(fetch(scope, at(1))).await), Some(ErrorKind::Unsupported));
    }
    let nothing = Scope::Slots { slots: SlotSet::default(), cursor: Cursor::default() };
    assert!(t.store.fetch(fetch(nothing, at(1))).await?.rows.is_empty(), "asking for nothing tells the time");
    let queue = t.claim(ClaimFrom::Queue, "ann", 1, at(1)).await;
    assert_eq!(kind(queue), Some(ErrorKind::Unsupported));
    let promote = Promote { node: node(1), lane: Lane(64), order: Order::None, rows: 1, now: Some(at(1)) };
    assert_eq!(kind(t.store.promote(promote).await), Some(ErrorKind::Unsupported));
    Ok(())
}

/// RLY-011
async fn what_waits_can_be_read_without_a_claim(t: Fixture) -> Checked {
    t.write(vec![row(item(2).group("b")), row(item(3).group("a")), row(item(1))], at(0)).await?;
    let fetched = t.store.fetch(fetch(Scope::Due, at(1))).await?;
    assert_eq!(ids(&fetched.rows), [tsid(1), tsid(3), tsid(2)]);
    assert!(fetched.rows.iter().all(|row| row.token == Token(0) && row.attempts == 0) && !fetched.more);
    let few = pillarbox::port::Fetch { rows: 2, ..fetch(Scope::Due, at(1)) };
    let fetched = t.store.fetch(few).await?;
    assert_eq!((fetched.rows.len(), fetched.more), (2, true));
    assert_eq!(claim_all(&t, 2).await?.len(), 3);
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
    let claimed = t.store.claim(Claim { now: None, ..claim(ClaimFrom::Events, "ann", MANY, at(0)) }).await?;
    assert_eq!(ids(&claimed), [tsid(3), tsid(4)]);
    let refused =
        Work { rows: vec![row(item(5)), row(Event::text("EVENT", "{}"))], ..work(5, Ending::Commit) };
    assert_eq!(kind(doors.work(refused).await), Some(ErrorKind::InvalidInput));
    let cancel = pillarbox::port::Cancel { ids: vec![id(&tsid(6))], by: "ann".to_owned(), now: None };
    let taken_back = Work { cancel: Some(cancel), ..Work::rows(vec![row(item(6))], Ending::Commit) };
    assert_eq!(doors.work(taken_back).await?.cancelled, [id(&tsid(6))]);
    assert_eq!(t.store.write(Write { rows: vec![row(item(6))], now: None }).await?.len(), 1);
    Ok(())
}
