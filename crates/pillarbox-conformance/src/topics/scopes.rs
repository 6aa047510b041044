//! The other reads: one group from a number on, and all that is due.

use pillarbox::model::{Row, Seq, Slot, SlotSet};
use pillarbox::port::{ByteLimits, Change, ClaimFrom, Cursor, Fetch, Scope, StoreError};

use crate::case::{Case, Checked, cases};
use crate::harness::Fixture;
use crate::kit::*;

pub(crate) fn cases() -> Vec<Case> {
    cases!("scopes"; Nothing:
        a_group_is_read_from_a_number_on,
        a_group_is_read_in_one_slot_only,
        a_group_read_names_the_origin_of_its_numbers,
        a_group_read_obeys_the_limits,
        due_rows_are_read_from_every_lane_but_the_queue,
        rows_due_later_are_not_read_as_due,
        due_rows_are_read_oldest_first_up_to_the_limit,
        recent_rows_are_passed_over_when_due_ones_are_read,
        claimed_rows_are_not_read_as_due_until_the_lease_ends,
    )
}

async fn of_group(t: &Fixture, slot: Slot, key: &str, from: Seq) -> Result<Vec<Row>, StoreError> {
    let fetched = t.native().fetch(fetch(Scope::Group { slot, group: group(key), from }, at(0))).await?;
    let origin = fetched.cursor.origin;
    assert_eq!((fetched.cursor, fetched.more), (Cursor { origin, ..Cursor::default() }, false));
    Ok(fetched.rows)
}

async fn due(t: &Fixture, now: i64) -> Result<Vec<Row>, StoreError> {
    let fetched = t.native().fetch(fetch(Scope::Due, at(now))).await?;
    assert_eq!(fetched.cursor, Cursor::default());
    Ok(fetched.rows)
}

/// PBX-010
async fn a_group_is_read_from_a_number_on(t: Fixture) -> Checked {
    for (group, id) in [("g", "a"), ("h", "b"), ("g", "c"), ("g", "d"), ("g", "e")] {
        t.write(grouped(group, &[id]), at(0)).await?;
    }
    t.apply("d", Change::Done, at(0)).await?;
    t.apply("c", retry(secs(60)), at(0)).await?;
    let slot = t.record("a").await?.slot;
    assert_eq!(ids(&of_group(&t, slot, "g", Seq(0)).await?), ["a", "c", "e"]);
    let from = t.record("c").await?.seq;
    assert_eq!(ids(&of_group(&t, slot, "g", from).await?), ["c", "e"], "the number itself is included");
    assert_eq!(ids(&of_group(&t, slot, "g", Seq(from.0 + 1)).await?), ["e"]);
    Ok(())
}

/// PBX-010, PBX-012
async fn a_group_is_read_in_one_slot_only(t: Fixture) -> Checked {
    let rows = vec![in_slot(event("a").group("g")), in_lane(event("b").group("g"), 64)];
    t.write(rows, at(0)).await?;
    let slot = t.record("a").await?.slot;
    assert_eq!(ids(&of_group(&t, slot, "g", Seq(0)).await?), ["a"]);
    assert_eq!(ids(&of_group(&t, Slot(64), "g", Seq(0)).await?), ["b"]);
    Ok(())
}

/// PBX-010, PBX-011: by this a reader sees that numbers may have been given again since it read the slots.
async fn a_group_read_names_the_origin_of_its_numbers(t: Fixture) -> Checked {
    t.write(grouped("g", &["a", "b"]), at(0)).await?;
    let row = t.record("a").await?;
    let slots = Scope::Slots { slots: SlotSet::new([row.slot]), cursor: Cursor::default() };
    let of_slots = t.native().fetch(fetch(slots, at(0))).await?;
    let scope = Scope::Group { slot: row.slot, group: group("g"), from: row.seq };
    let of_group = t.native().fetch(fetch(scope, at(0))).await?;
    assert_eq!(of_group.cursor.origin, of_slots.cursor.origin);
    Ok(())
}

/// PBX-013
async fn a_group_read_obeys_the_limits(t: Fixture) -> Checked {
    t.write(grouped("g", &["a", "b", "c"]), at(0)).await?;
    t.write(grouped("g", &["d"]), at(8)).await?;
    let slot = t.record("a").await?.slot;
    let whole = fetch(Scope::Group { slot, group: group("g"), from: Seq(0) }, at(9));
    let two = t.native().fetch(Fetch { rows: 2, ..whole.clone() }).await?;
    assert_eq!((ids(&two.rows), two.more), (vec!["a", "b"], true));
    let bytes = t
        .native()
        .fetch(Fetch { bytes: ByteLimits::of_total(two.rows[0].bytes + 1), ..whole.clone() })
        .await?;
    assert_eq!((ids(&bytes.rows), bytes.more), (vec!["a", "b"], true));
    let old = t.native().fetch(Fetch { skip_recent: secs(5), ..whole }).await?;
    assert_eq!((ids(&old.rows), old.more), (vec!["a", "b", "c"], false));
    Ok(())
}

/// EVT-046
async fn due_rows_are_read_from_every_lane_but_the_queue(t: Fixture) -> Checked {
    let rows = vec![
        in_slot(event("slot")),
        in_queue(event("queued")),
        in_lane(event("lane"), 64),
        in_slot(event("delayed").due(at(5))),
    ];
    t.write(rows, at(0)).await?;
    assert_eq!(ids(&due(&t, 5).await?), ["slot", "lane", "delayed"]);
    Ok(())
}

/// EVT-046, PBX-014
async fn rows_due_later_are_not_read_as_due(t: Fixture) -> Checked {
    t.write(plain(&["a", "b", "done", "dead"]), at(0)).await?;
    t.apply("a", retry(secs(10)), at(0)).await?;
    t.apply("done", Change::Done, at(0)).await?;
    t.apply("dead", dead(), at(0)).await?;
    assert_eq!(ids(&due(&t, 9).await?), ["b"]);
    assert_eq!(ids(&due(&t, 10).await?), ["a", "b"], "due at that very time");
    Ok(())
}

/// EVT-046
async fn due_rows_are_read_oldest_first_up_to_the_limit(t: Fixture) -> Checked {
    t.write(plain(&["a", "b", "c"]), at(0)).await?;
    let two = t.native().fetch(Fetch { rows: 2, ..fetch(Scope::Due, at(0)) }).await?;
    assert_eq!((ids(&two.rows), two.more), (vec!["a", "b"], true));
    let three = t.native().fetch(Fetch { rows: 3, ..fetch(Scope::Due, at(0)) }).await?;
    assert_eq!((three.rows.len(), three.more), (3, false));
    let bytes = t
        .native()
        .fetch(Fetch { bytes: ByteLimits::of_total(two.rows[0].bytes), ..fetch(Scope::Due, at(0)) })
        .await?;
    assert_eq!((ids(&bytes.rows), bytes.more), (vec!["a"], true));
    Ok(())
}

/// EVT-046
async fn recent_rows_are_passed_over_when_due_ones_are_read(t: Fixture) -> Checked {
    t.write(plain(&["recent"]), at(8)).await?;
    t.write(plain(&["old"]), at(0)).await?;
    let fetched = t.native().fetch(Fetch { skip_recent: secs(5), ..fetch(Scope::Due, at(9)) }).await?;
    assert_eq!((ids(&fetched.rows), fetched.more), (vec!["old"], false));
    Ok(())
}

/// EVT-047, EVT-086
async fn claimed_rows_are_not_read_as_due_until_the_lease_ends(t: Fixture) -> Checked {
    t.write(plain(&["a", "b"]), at(0)).await?;
    t.claim(ClaimFrom::Events, "someone", 1, at(0)).await?;
    assert_eq!(ids(&due(&t, 29).await?), ["b"]);
    assert_eq!(ids(&due(&t, 30).await?), ["a", "b"]);
    assert_eq!(ids(&t.pending().await?), ["a", "b"], "reads of slots do not look at claims");
    Ok(())
}
