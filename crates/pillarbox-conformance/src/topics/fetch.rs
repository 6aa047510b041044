//! Reading slots: every pending row once, in the order of numbers, as much as was asked for.

use std::time::Duration;

use pillarbox::model::{Row, Seq, Slot, SlotSet, Status, Token};
use pillarbox::port::{ByteLimits, Change, ClaimFrom, Cursor, Fetch, Scope};

use crate::case::{Case, Checked, cases};
use crate::harness::{Fixture, native};
use crate::kit::*;

pub(crate) fn cases() -> Vec<Case> {
    cases!("fetch"; Nothing:
        pending_rows_come_in_the_order_of_their_numbers,
        only_the_slots_asked_for_are_read,
        rows_up_to_the_cursor_are_left_out,
        a_row_limit_cuts_and_the_cursor_goes_on_from_there,
        as_many_rows_as_asked_for_are_not_cut,
        a_byte_limit_cuts_once_it_is_reached,
        the_first_row_comes_however_large_it_is,
        nothing_asked_for_is_nothing_read,
        rows_that_are_not_due_are_read_too,
        ended_rows_are_not_read,
        delayed_and_queued_rows_are_not_read_by_slots,
        recent_rows_are_left_for_later,
        a_recent_row_is_not_a_limit,
        the_cursor_reaches_the_end_and_never_falls,
        a_cursor_beyond_the_last_number_starts_anew,
        rows_tell_what_delivery_needs,
        reading_locks_nothing,
        a_read_tells_the_databases_time,
    )
}

fn slots(t: &Fixture, cursor: Cursor) -> Scope {
    Scope::Slots { slots: t.every_slot(), cursor }
}

/// EVT-046, PBX-010
async fn pending_rows_come_in_the_order_of_their_numbers(t: Fixture) -> Checked {
    let names: Vec<String> = (0..100).map(|n| format!("e{n}")).collect();
    let row =
        |name: &String| in_slot(event(name).group(format!("g{}", name.len() + name.as_bytes()[1] as usize)));
    for chunk in names.chunks(7) {
        t.write(chunk.iter().map(row).collect(), at(0)).await?;
    }
    let rows = t.pending().await?;
    assert_eq!(ids(&rows), names);
    assert!(rows.windows(2).all(|pair| pair[0].seq < pair[1].seq));
    Ok(())
}

/// PBX-011, PBX-012
async fn only_the_slots_asked_for_are_read(t: Fixture) -> Checked {
    let spread = (0..200).map(|n| in_slot(event(&format!("e{n}")).group(format!("g{n}"))));
    t.write(spread.chain([in_lane(event("lane"), 64)]).collect(), at(0)).await?;
    let all = t.pending().await?;
    let half = SlotSet::new([0, 1, 2, 3, 9, 64].map(Slot));
    let scope = Scope::Slots { slots: half.clone(), cursor: Cursor::default() };
    let read = t.native().fetch(fetch(scope, at(0))).await?.rows;
    let expected: Vec<&str> =
        all.iter().filter(|row| half.contains(row.slot)).map(|row| row.id.as_str()).collect();
    assert_eq!(ids(&read), expected);
    assert!(expected.len() > 1 && expected.len() < 201);
    Ok(())
}

/// PBX-010
async fn rows_up_to_the_cursor_are_left_out(t: Fixture) -> Checked {
    let written = t.write(plain(&["a", "b", "c"]), at(0)).await?;
    let cursor = Cursor { decided: written[1].seq, ..Cursor::default() };
    assert_eq!(ids(&t.read(cursor, at(0)).await?.rows), ["c"]);
    Ok(())
}

/// EVT-046, PBX-013
async fn a_row_limit_cuts_and_the_cursor_goes_on_from_there(t: Fixture) -> Checked {
    t.write(plain(&["a", "b", "c", "d", "e"]), at(0)).await?;
    let (mut cursor, mut seen) = (Cursor::default(), Vec::<Row>::new());
    for more in [true, true, false] {
        let fetched = t.native().fetch(Fetch { rows: 2, ..fetch(slots(&t, cursor), at(0)) }).await?;
        assert_eq!(fetched.more, more);
        if more {
            assert_eq!(fetched.cursor.decided, fetched.rows[1].seq, "the last row that was answered");
        }
        cursor = fetched.cursor;
        seen.extend(fetched.rows);
    }
    assert_eq!(ids(&seen), ["a", "b", "c", "d", "e"]);
    Ok(())
}

/// PBX-013
async fn as_many_rows_as_asked_for_are_not_cut(t: Fixture) -> Checked {
    t.write(plain(&["a", "b"]), at(0)).await?;
    let fetched = t.native().fetch(Fetch { rows: 2, ..fetch(slots(&t, Cursor::default()), at(0)) }).await?;
    assert_eq!((fetched.rows.len(), fetched.more), (2, false));
    Ok(())
}

/// PBX-013
async fn a_byte_limit_cuts_once_it_is_reached(t: Fixture) -> Checked {
    let row = |id: &str| in_slot(pillarbox::Event::text("t", "0123456789").id(id));
    t.write(["a", "b", "c", "d"].map(row).to_vec(), at(0)).await?;
    // Ten bytes of payload, one of the id and one of the type.
    for (total, rows, more) in [(1, 1, true), (12, 1, true), (13, 2, true), (36, 3, true), (37, 4, false)] {
        let bytes = ByteLimits::of_total(total);
        let fetched = t.native().fetch(Fetch { bytes, ..fetch(slots(&t, Cursor::default()), at(0)) }).await?;
        assert_eq!((fetched.rows.len(), fetched.more), (rows, more), "{total} bytes");
        if more {
            assert_eq!(fetched.cursor.decided, fetched.rows[rows - 1].seq);
        }
    }
    Ok(())
}

/// PBX-013
async fn the_first_row_comes_however_large_it_is(t: Fixture) -> Checked {
    let large = in_slot(pillarbox::Event::text("t", "x".repeat(10_000)).id("a"));
    t.write([vec![large], plain(&["b"])].concat(), at(0)).await?;
    let fetched = t
        .native()
        .fetch(Fetch { bytes: ByteLimits::of_total(0), ..fetch(slots(&t, Cursor::default()), at(0)) })
        .await?;
    assert_eq!((ids(&fetched.rows), fetched.more), (vec!["a"], true));
    Ok(())
}

/// PBX-013
async fn nothing_asked_for_is_nothing_read(t: Fixture) -> Checked {
    t.write(plain(&["a"]), at(0)).await?;
    let none = t.native().fetch(Fetch { rows: 0, ..fetch(slots(&t, Cursor::default()), at(0)) }).await?;
    assert_eq!((none.rows.len(), none.more, none.cursor.decided), (0, true, Seq(0)));
    let scope = Scope::Slots { slots: SlotSet::default(), cursor: Cursor::default() };
    let none = t.native().fetch(fetch(scope, at(0))).await?;
    assert_eq!((none.rows.len(), none.more), (0, false));
    Ok(())
}

/// PBX-010
async fn rows_that_are_not_due_are_read_too(t: Fixture) -> Checked {
    t.write(grouped("g", &["a", "b"]), at(0)).await?;
    t.apply("a", retry(secs(60)), at(0)).await?;
    let rows = t.read(Cursor::default(), at(1)).await?.rows;
    assert_eq!(ids(&rows), ["a", "b"]);
    assert_eq!((rows[0].status, rows[0].available_at, rows[0].attempts), (Status::Retry, at(60), 1));
    Ok(())
}

/// EVT-046
async fn ended_rows_are_not_read(t: Fixture) -> Checked {
    t.write(plain(&["a", "b", "c"]), at(0)).await?;
    t.apply("a", Change::Done, at(1)).await?;
    t.apply("b", dead(), at(1)).await?;
    assert_eq!(ids(&t.pending().await?), ["c"]);
    Ok(())
}

/// PBX-012
async fn delayed_and_queued_rows_are_not_read_by_slots(t: Fixture) -> Checked {
    let rows = vec![in_queue(event("queued")), in_slot(event("delayed").due(at(5))), in_slot(event("a"))];
    t.write(rows, at(0)).await?;
    let scope = Scope::Slots { slots: SlotSet::new((0..i16::MAX).map(Slot)), cursor: Cursor::default() };
    assert_eq!(ids(&t.native().fetch(fetch(scope, at(60))).await?.rows), ["a"]);
    Ok(())
}

/// EVT-046
async fn recent_rows_are_left_for_later(t: Fixture) -> Checked {
    t.write(plain(&["a"]), at(0)).await?;
    t.write(plain(&["b"]), at(8)).await?;
    t.write(plain(&["c"]), at(2)).await?;
    let recent = |cursor, now| Fetch { skip_recent: secs(5), ..fetch(slots(&t, cursor), at(now)) };
    let fetched = t.native().fetch(recent(Cursor::default(), 9)).await?;
    assert_eq!((ids(&fetched.rows), fetched.more), (vec!["a"], false), "stops at the first recent row");
    assert!(fetched.cursor.decided < t.record("b").await?.seq, "the cursor must not pass it");
    let rest = t.native().fetch(recent(fetched.cursor, 13)).await?;
    assert_eq!(ids(&rest.rows), ["b", "c"], "a row as old as that is no longer recent");
    Ok(())
}

/// EVT-046
async fn a_recent_row_is_not_a_limit(t: Fixture) -> Checked {
    t.write(plain(&["a"]), at(0)).await?;
    t.write(plain(&["b"]), at(8)).await?;
    let request = Fetch { rows: 1, skip_recent: secs(5), ..fetch(slots(&t, Cursor::default()), at(9)) };
    let fetched = t.native().fetch(request).await?;
    assert_eq!((ids(&fetched.rows), fetched.more), (vec!["a"], false));
    let future = Fetch { skip_recent: Duration::ZERO, ..fetch(slots(&t, Cursor::default()), at(-9)) };
    assert_eq!(
        t.native().fetch(future).await?.rows.len(),
        2,
        "zero tests nothing, also after the clock fell"
    );
    Ok(())
}

/// PBX-010
async fn the_cursor_reaches_the_end_and_never_falls(t: Fixture) -> Checked {
    let last = t.write(plain(&["a", "b", "c"]), at(0)).await?[2].seq;
    let mut cursor = Cursor::default();
    for _ in 0..5 {
        let next = t.read(cursor.clone(), at(0)).await?.cursor;
        assert!(next.decided >= cursor.decided, "the cursor fell");
        cursor = next;
    }
    assert!(cursor.decided >= last, "nobody writes, yet the cursor stays at {}", cursor.decided);
    let next = t.write(plain(&["d"]), at(0)).await?[0].seq;
    assert!(cursor.decided < next, "the cursor is beyond a number that was not drawn yet");
    assert_eq!(ids(&t.read(cursor, at(0)).await?.rows), ["d"]);
    Ok(())
}

/// PBX-035
async fn a_cursor_beyond_the_last_number_starts_anew(t: Fixture) -> Checked {
    t.write(plain(&["a", "b"]), at(0)).await?;
    let beyond = Cursor { decided: Seq(1 << 40), ..Cursor::default() };
    let read = t.read(beyond.clone(), at(0)).await?;
    assert_eq!(ids(&read.rows), ["a", "b"], "numbers went back: these are given again");
    assert!(read.cursor.decided < beyond.decided);
    Ok(())
}

/// EVT-046, PBX-019
async fn rows_tell_what_delivery_needs(t: Fixture) -> Checked {
    let row = event("a").group("g").expires(at(90));
    let written = t.write(vec![in_slot(row)], at(3)).await?;
    t.claim(ClaimFrom::Events, "someone", 1, at(4)).await?;
    t.apply("a", retry_of(2, secs(10)), at(5)).await?;
    let row = t.pending().await?.remove(0);
    assert_eq!((row.seq, row.status, row.attempts), (written[0].seq, Status::Retry, 2));
    assert_eq!((row.created_at, row.available_at, row.expires_at), (at(3), at(15), Some(at(90))));
    assert_eq!((row.token, row.group), (Token(0), Some(group("g"))), "a read row has no token");
    Ok(())
}

/// PBX-013
async fn reading_locks_nothing(t: Fixture) -> Checked {
    t.write(plain(&["a", "b"]), at(0)).await?;
    t.read(Cursor::default(), at(0)).await?;
    let beside = native(&t.beside).fetch(fetch(slots(&t, Cursor::default()), at(0))).await?;
    assert_eq!(ids(&beside.rows), ["a", "b"]);
    let record = t.record("a").await?;
    assert_eq!((record.locked_by, record.attempts), (None, 0));
    Ok(())
}

/// PBX-014
async fn a_read_tells_the_databases_time(t: Fixture) -> Checked {
    let given = t.read(Cursor::default(), at(7)).await?.now;
    assert_eq!(given, at(7));
    let own = async |table| {
        let request = Fetch { now: None, ..fetch(Scope::Due, at(0)) };
        native(table).fetch(request).await.map(|fetched| fetched.now)
    };
    let first = own(&t.store).await?;
    let second = own(&t.beside).await?;
    assert!(first <= second, "two handles, one clock");
    Ok(())
}
