//! Bounds in bytes: what a read, a claim or a take loads, and rows that are too large to be loaded at all.

use pillarbox::model::{Event, NewRow, Row, Seq, Status};
use pillarbox::port::{
    ByteLimits, Change, Claim, ClaimFrom, Counts, Cursor, Fence, Fetch, Scope, StoreError, Take,
};

use crate::case::{Case, Checked, cases};
use crate::harness::Fixture;
use crate::item_kit::*;
use crate::kit::*;

/// More than comes with the first statement of a read, whatever is asked for.
const LARGE: usize = 20_000;

pub(crate) fn cases() -> Vec<Case> {
    cases!("bytes";
    Nothing:
        large_rows_are_read_until_the_limit_is_reached,
        headers_names_and_binary_payloads_count,
        a_row_that_is_too_large_is_read_without_its_contents,
        a_row_that_is_too_large_dies_and_the_rest_is_delivered,
        a_claim_takes_what_fits_and_leaves_the_rest_free,
        a_claimed_row_that_is_too_large_comes_without_its_contents,
        the_error_of_a_claimed_row_counts;
    Items:
        a_take_ends_where_its_limit_is_reached,
        a_taken_item_that_is_too_large_comes_without_its_contents;
    )
}

fn text(fill: char) -> String {
    fill.to_string().repeat(LARGE)
}

fn large(id: &str, fill: char) -> NewRow {
    in_slot(Event::text("t", text(fill)).id(id).group("g"))
}

fn limits(total: usize, row: usize) -> ByteLimits {
    ByteLimits { total, row }
}

fn slots(t: &Fixture) -> Scope {
    Scope::Slots { slots: t.every_slot(), cursor: Cursor::default() }
}

fn payloads(rows: &[Row]) -> Vec<Option<&[u8]>> {
    rows.iter().map(|row| row.event.as_ref().ok().map(|event| event.payload().as_bytes())).collect()
}

fn errors(rows: &[Row]) -> Vec<Option<String>> {
    rows.iter().map(|row| row.event.as_ref().err().map(|why| why.error())).collect()
}

fn is_too_large(row: &Row) -> bool {
    row.event.as_ref().is_err_and(|why| why.error().starts_with("too large: ")) && row.bytes == 0
}

/// PBX-013
async fn large_rows_are_read_until_the_limit_is_reached(t: Fixture) -> Checked {
    let rows = vec![large("a", 'a'), in_slot(event("b").group("g")), large("c", 'c'), large("d", 'd')];
    t.write(rows, at(0)).await?;
    let slot = t.record("a").await?.slot;
    for scope in [slots(&t), Scope::Group { slot, group: group("g"), from: Seq(0) }, Scope::Due] {
        let bytes = limits(LARGE + 1_000, usize::MAX);
        let fetched = t.native().fetch(Fetch { bytes, ..fetch(scope.clone(), at(1)) }).await?;
        assert_eq!((ids(&fetched.rows), fetched.more), (vec!["a", "b", "c"], true), "{scope:?}");
        let expected = [text('a'), "{}".to_owned(), text('c')];
        let expected: Vec<_> = expected.iter().map(|text| Some(text.as_bytes())).collect();
        assert_eq!(payloads(&fetched.rows), expected, "{scope:?}");
        let sizes: Vec<usize> = fetched.rows.iter().map(|row| row.bytes).collect();
        let written: Vec<usize> =
            fetched.rows.iter().map(|row| row.event.as_ref().map_or(0, Event::size)).collect();
        assert_eq!(sizes, written, "a row counts what its event has");
    }
    Ok(())
}

/// PBX-013
async fn headers_names_and_binary_payloads_count(t: Fixture) -> Checked {
    let headers = Event::text("t", "{}").id("a").header("k", text('h'));
    let binary = Event::bytes("t", text('b')).id("b");
    let names = Event::text("t", "{}").id("c").tenant("n".repeat(64)).correlation_id("n".repeat(255));
    t.write([headers, binary, names, event("d")].map(in_slot).to_vec(), at(0)).await?;
    let fetched = t.native().fetch(fetch(slots(&t), at(1))).await?;
    assert!(fetched.rows[..2].iter().all(|row| row.bytes > LARGE), "{:?}", fetched.rows[0].bytes);
    assert!(fetched.rows[2].bytes > 319, "{}", fetched.rows[2].bytes);
    for (total, expected) in [(LARGE, 1), (LARGE + 100, 2), (2 * LARGE + 300, 3), (2 * LARGE + 600, 4)] {
        let bytes = limits(total, usize::MAX);
        let fetched = t.native().fetch(Fetch { bytes, ..fetch(slots(&t), at(1)) }).await?;
        assert_eq!(fetched.rows.len(), expected, "{total} bytes");
        assert_eq!(errors(&fetched.rows), vec![None; expected]);
    }
    Ok(())
}

/// PBX-013
async fn a_row_that_is_too_large_is_read_without_its_contents(t: Fixture) -> Checked {
    let headers = in_slot(Event::text("t", "{}").id("c").group("g").header("k", text('h')));
    let binary = in_slot(Event::bytes("t", text('b')).id("d").group("g"));
    let small = in_slot(event("b").group("g"));
    t.write(vec![large("a", 'a'), small, headers, binary], at(0)).await?;
    let slot = t.record("a").await?.slot;
    for scope in [slots(&t), Scope::Group { slot, group: group("g"), from: Seq(0) }, Scope::Due] {
        for row in [1_000, LARGE - 1] {
            let bytes = limits(usize::MAX, row);
            let fetched = t.native().fetch(Fetch { bytes, ..fetch(scope.clone(), at(1)) }).await?;
            assert_eq!((ids(&fetched.rows), fetched.more), (vec!["a", "b", "c", "d"], false));
            let aside: Vec<bool> = fetched.rows.iter().map(is_too_large).collect();
            assert_eq!(aside, [true, false, true, true], "{:?}", errors(&fetched.rows));
            assert!(fetched.rows.iter().all(|row| row.group == Some(group("g"))), "order holds");
        }
    }
    Ok(())
}

/// PBX-013
async fn a_row_that_is_too_large_dies_and_the_rest_is_delivered(t: Fixture) -> Checked {
    t.write(vec![large("a", 'a'), in_slot(event("b").group("g"))], at(0)).await?;
    let bytes = limits(1, 1_000);
    let fetched = t.native().fetch(Fetch { bytes, ..fetch(slots(&t), at(1)) }).await?;
    assert_eq!(ids(&fetched.rows), ["a", "b"], "what is not loaded takes no room");
    let error = errors(&fetched.rows)[0].clone().unwrap_or_default();
    assert!(error.contains("max-row-bytes") && error.contains("1000"), "{error}");
    let change = Change::Dead { error: error.clone(), counts: Counts::NotMade(0), blocks: None };
    t.settle(Fence::Open, vec![outcome(&fetched.rows[0], change)], at(1)).await?;
    let record = t.record("a").await?;
    assert_eq!((record.status, record.last_error), (Status::Dead, Some(error)));
    Ok(())
}

async fn claimed(t: &Fixture, from: ClaimFrom, bytes: ByteLimits, now: i64) -> Result<Vec<Row>, StoreError> {
    t.native().claim(Claim { bytes, ..claim(from, "ann", MANY, at(now)) }).await
}

/// PBX-013
async fn a_claim_takes_what_fits_and_leaves_the_rest_free(t: Fixture) -> Checked {
    let queued = |id: &str, fill| in_queue(Event::text("t", text(fill)).id(id));
    let rows = vec![large("a", 'a'), large("b", 'b'), large("c", 'c')];
    t.write(rows, at(0)).await?;
    t.write(vec![queued("q", 'q'), queued("r", 'r'), queued("s", 's')], at(0)).await?;
    for (from, names) in [(ClaimFrom::Events, ["a", "b", "c"]), (ClaimFrom::Queue, ["q", "r", "s"])] {
        let rows = claimed(&t, from, limits(LARGE + 1_000, usize::MAX), 1).await?;
        assert_eq!(ids(&rows), names[..2]);
        let expected: Vec<String> = names[..2].iter().map(|name| name.repeat(LARGE)).collect();
        let expected: Vec<_> = expected.iter().map(|text| Some(text.as_bytes())).collect();
        assert_eq!(payloads(&rows), expected);
        assert!(rows.iter().map(|row| row.bytes).sum::<usize>() > LARGE + 1_000, "the limit was reached");
        let left = t.record(names[2]).await?;
        assert_eq!((left.attempts, left.locked_by, left.locked_until), (0, None, None));
        assert_eq!(ids(&claimed(&t, from, limits(0, usize::MAX), 1).await?), [names[2]], "one always comes");
    }
    Ok(())
}

/// PBX-013
async fn a_claimed_row_that_is_too_large_comes_without_its_contents(t: Fixture) -> Checked {
    let queued = |id: &str, fill| in_queue(Event::text("t", text(fill)).id(id));
    t.write(vec![queued("a", 'a'), in_queue(event("b")), queued("c", 'c')], at(0)).await?;
    let rows = claimed(&t, ClaimFrom::Queue, limits(usize::MAX, 1_000), 1).await?;
    assert_eq!(rows.iter().map(is_too_large).collect::<Vec<_>>(), [true, false, true]);
    let change = Change::Dead { error: "no".to_owned(), counts: Counts::NotMade(0), blocks: None };
    let outcomes = vec![outcome(&rows[0], change), outcome(&rows[1], Change::Done)];
    let settled = t.settle(Fence::Owner(owner("ann")), outcomes, at(2)).await?;
    assert!(settled.stale.is_empty());
    assert_eq!(t.record("a").await?.status, Status::Dead);
    Ok(())
}

/// PBX-013
async fn the_error_of_a_claimed_row_counts(t: Fixture) -> Checked {
    t.write(vec![in_queue(event("a"))], at(0)).await?;
    let first = claimed(&t, ClaimFrom::Queue, ByteLimits::NONE, 1).await?;
    let Change::Retry { delay, counts, wait, .. } = retry(secs(1)) else { return Ok(()) };
    let change = Change::Retry { delay, error: "e".repeat(3_000), counts, wait };
    t.settle(Fence::Owner(owner("ann")), vec![outcome(&first[0], change)], at(1)).await?;
    let second = claimed(&t, ClaimFrom::Queue, ByteLimits::NONE, 9).await?;
    assert_eq!(second[0].last_error.as_ref().map(String::len), Some(3_000));
    assert!(second[0].bytes >= first[0].bytes + 3_000, "{} and {}", second[0].bytes, first[0].bytes);
    Ok(())
}

/// Takes everything within these limits as node 1, which must lead.
async fn taken_within(t: &Fixture, bytes: ByteLimits) -> Result<Vec<Row>, StoreError> {
    taken(t, Take { bytes, ..take(1, 1) }).await
}

fn large_item(number: usize) -> pillarbox::model::EventBuilder {
    Event::text("EVENT", text('x')).id(tsid(number))
}

/// PBX-013, RLY-011
async fn a_take_ends_where_its_limit_is_reached(t: Fixture) -> Checked {
    let rows = vec![
        row(large_item(1)),
        row(large_item(2).group("a")),
        row(item(3).group("a")),
        row(large_item(4).group("a")),
        row(large_item(5).group("b")),
    ];
    t.write(rows, at(0)).await?;
    t.join(1, at(0)).await?;
    let bytes = limits(LARGE + 1_000, usize::MAX);
    let taken = taken_within(&t, bytes).await?;
    assert_eq!(ids(&taken), [tsid(1), tsid(2)]);
    assert_eq!(payloads(&taken), vec![Some(text('x').as_bytes()); 2]);
    assert!(bytes.reached_by(taken.iter().map(|row| row.bytes).sum()), "the taker can tell");
    for number in [3, 4, 5] {
        assert_eq!(look(&t, number).await?.status, "PENDING", "{number} is left as it was");
    }
    let taken = taken_within(&t, limits(0, usize::MAX)).await?;
    assert_eq!(ids(&taken), [tsid(3)], "one always comes");
    let taken = taken_within(&t, ByteLimits::NONE).await?;
    assert_eq!(ids(&taken), [tsid(4), tsid(5)]);
    Ok(())
}

/// PBX-013
async fn a_taken_item_that_is_too_large_comes_without_its_contents(t: Fixture) -> Checked {
    t.write(vec![row(large_item(1).group("a")), row(item(2).group("a"))], at(0)).await?;
    t.join(1, at(0)).await?;
    let taken = taken_within(&t, limits(1, 1_000)).await?;
    assert_eq!(ids(&taken), [tsid(1), tsid(2)], "what is not loaded takes no room");
    assert_eq!(taken.iter().map(is_too_large).collect::<Vec<_>>(), [true, false]);
    let change = Change::Dead { error: "large".to_owned(), counts: Counts::NotMade(0), blocks: None };
    t.settle(Fence::Node(node(1)), vec![outcome(&taken[0], change)], at(1)).await?;
    assert_eq!(look(&t, 1).await?.status, "FAILED");
    Ok(())
}
