//! Promoting: delayed rows whose time has come go to the end of the order.

use pillarbox::model::{Lane, Seq, Slot, Status};
use pillarbox::port::{Cursor, Order, Promote, Promoted, StoreError};

use crate::case::{Case, Checked, cases};
use crate::harness::Fixture;
use crate::kit::*;

pub(crate) fn cases() -> Vec<Case> {
    cases!("promote"; Nothing:
        due_rows_move_to_the_nodes_lane_in_the_order_of_their_time,
        grouped_rows_move_to_their_slot_when_order_counts,
        without_order_grouped_rows_move_to_the_lane_too,
        rows_that_are_not_due_stay,
        no_more_than_asked_for_are_moved,
        only_members_promote,
        status_attempts_and_times_stay,
        promoted_rows_are_seen_by_a_reader_that_was_beyond_them,
        ended_rows_are_not_promoted,
    )
}

async fn promote(t: &Fixture, order: Order, rows: usize, now: i64) -> Result<Promoted, StoreError> {
    t.native().promote(Promote { node: node(1), lane: Lane(64), order, rows, now: Some(at(now)) }).await
}

/// PBX-014
async fn due_rows_move_to_the_nodes_lane_in_the_order_of_their_time(t: Fixture) -> Checked {
    t.join(1, at(0)).await?;
    let rows =
        [("late", 9), ("b", 5), ("c", 5), ("first", 3)].map(|(id, due)| in_slot(event(id).due(at(due))));
    let last = t.write(rows.to_vec(), at(0)).await?[3].seq;
    let moved = promote(&t, Order::PerGroup, 10, 9).await?;
    assert_eq!(moved, Promoted { moved: 4, ..Promoted::default() });
    let rows = t.pending().await?;
    assert_eq!(ids(&rows), ["first", "b", "c", "late"]);
    assert!(
        rows.iter().all(|row| row.slot == Slot(64) && row.seq > last),
        "a new number and the node's lane"
    );
    Ok(())
}

/// PBX-010
async fn grouped_rows_move_to_their_slot_when_order_counts(t: Fixture) -> Checked {
    t.join(1, at(0)).await?;
    t.write(vec![in_slot(event("a").group("g").due(at(5))), in_slot(event("b").due(at(5)))], at(0)).await?;
    t.write(grouped("g", &["c"]), at(6)).await?;
    promote(&t, Order::PerGroup, 10, 6).await?;
    let (a, b, c) = (t.record("a").await?, t.record("b").await?, t.record("c").await?);
    assert_eq!((a.slot, b.slot), (c.slot, Slot(64)));
    assert!(a.seq > c.seq, "at the end of its group");
    Ok(())
}

/// PBX-012
async fn without_order_grouped_rows_move_to_the_lane_too(t: Fixture) -> Checked {
    t.join(1, at(0)).await?;
    t.write(vec![in_slot(event("a").group("g").due(at(5)))], at(0)).await?;
    promote(&t, Order::None, 10, 6).await?;
    let record = t.record("a").await?;
    assert_eq!((record.slot, record.group), (Slot(64), Some(group("g"))));
    Ok(())
}

/// PBX-014
async fn rows_that_are_not_due_stay(t: Fixture) -> Checked {
    t.join(1, at(0)).await?;
    t.write(vec![in_slot(event("a").due(at(5))), in_queue(event("q").due(at(1)))], at(0)).await?;
    assert_eq!(
        promote(&t, Order::None, 10, 4).await?,
        Promoted { next_due: Some(secs(1)), ..Promoted::default() }
    );
    assert_eq!(t.record("a").await?.slot, Lane::DELAYED.slot());
    assert_eq!(promote(&t, Order::None, 10, 5).await?, Promoted { moved: 1, ..Promoted::default() });
    assert_eq!(t.record("q").await?.slot, Lane::QUEUE.slot());
    Ok(())
}

/// PBX-013
async fn no_more_than_asked_for_are_moved(t: Fixture) -> Checked {
    t.join(1, at(0)).await?;
    t.write([3, 4, 5, 20].map(|due| in_slot(event(&format!("e{due}")).due(at(due)))).to_vec(), at(0)).await?;
    let left = Promoted { moved: 2, next_due: Some(secs(0)), later: Some(secs(11)) };
    assert_eq!(promote(&t, Order::None, 2, 9).await?, left);
    assert_eq!(ids(&t.pending().await?), ["e3", "e4"]);
    Ok(())
}

/// PBX-011
async fn only_members_promote(t: Fixture) -> Checked {
    t.write(vec![in_slot(event("a").due(at(5)))], at(0)).await?;
    assert_eq!(promote(&t, Order::None, 10, 9).await?, Promoted::default());
    t.join(1, at(0)).await?;
    assert_eq!(promote(&t, Order::None, 10, 99).await?.moved, 1, "being there is what counts");
    Ok(())
}

/// PBX-014
async fn status_attempts_and_times_stay(t: Fixture) -> Checked {
    t.join(1, at(0)).await?;
    t.write(vec![in_slot(event("a").expires(at(99)))], at(0)).await?;
    t.apply("a", retry_later(secs(5)), at(1)).await?;
    let before = t.record("a").await?;
    promote(&t, Order::PerGroup, 10, 9).await?;
    let after = t.record("a").await?;
    assert!(after.seq > before.seq);
    assert_eq!((after.status, after.attempts, after.last_error), (Status::Retry, 1, before.last_error));
    assert_eq!((after.created_at, after.available_at, after.expires_at), (at(0), at(6), Some(at(99))));
    assert_eq!(
        t.store.admin().show(id("a")).await?.expect("there").attempts.len(),
        1,
        "its history goes along"
    );
    Ok(())
}

/// PBX-010
async fn promoted_rows_are_seen_by_a_reader_that_was_beyond_them(t: Fixture) -> Checked {
    t.join(1, at(0)).await?;
    t.write(vec![in_slot(event("a").due(at(5))), in_slot(event("b"))], at(0)).await?;
    let mut cursor = Cursor::default();
    for _ in 0..5 {
        cursor = t.read(cursor, at(0)).await?.cursor;
    }
    assert!(cursor.decided > Seq(0));
    promote(&t, Order::PerGroup, 10, 9).await?;
    assert_eq!(ids(&t.read(cursor, at(9)).await?.rows), ["a"]);
    Ok(())
}

/// EVT-045
async fn ended_rows_are_not_promoted(t: Fixture) -> Checked {
    t.join(1, at(0)).await?;
    t.write(vec![in_slot(event("a").due(at(5)))], at(0)).await?;
    t.apply("a", dead(), at(1)).await?;
    assert_eq!(promote(&t, Order::None, 10, 9).await?, Promoted::default());
    Ok(())
}
