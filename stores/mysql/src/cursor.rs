//! How far a cursor may advance: past every sequence number that no open transaction can still commit.
//!
//! MySQL lists open transactions only to privileged users, and the list may be out of date. A READ
//! UNCOMMITTED read, however, sees a row as soon as it is written. So the store *peeks*: it reads
//! uncommitted rows before it reads committed ones. A sequence number that the server has assigned is
//! then in one of three states:
//!
//! - the peek sees its row, committed or not;
//! - an earlier peek saw its row and it has gone: its transaction rolled back, or the row was deleted;
//! - it is assigned and its row is not written yet, which takes microseconds.
//!
//! A number that no peek has seen is therefore passed after a grace period. One case escapes this: a
//! transaction that deletes its row and restores it by a rollback to a savepoint. If that takes longer than
//! the grace period, the engine's next sweep finds the row.
//!
//! TiDB has no READ UNCOMMITTED; there, [`locks`] makes the peek.

mod locks;

use std::collections::BTreeSet;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use pillarbox::model::Seq;
use pillarbox::port::{Cursor, Horizon};

use crate::connection::{Session, number, numbers};
use crate::dialect::Dialect;
use crate::error::DriverError;
use crate::row::number_of;
use crate::sql::{Sql, fill, list};

/// How long a server may take to write a row after it has assigned the sequence number. To
/// exceed it, a server thread would have to be suspended between the two steps; the engine's
/// next sweep then finds the row.
const GRACE: Duration = Duration::from_millis(100);
/// The grace period while rows are renumbered: numbers that were seen have no row for a moment. It is longer
/// than a renumbering can last.
const RENUMBERING_GRACE: Duration = Duration::from_secs(60);
/// How many sequence numbers above the cursor a peek counts in its search for gaps.
const COUNTED: i64 = 4_096;
/// The most sequence numbers that [`committed`] counts, where a page spans that many.
const COUNTED_MAX: i64 = 4 * COUNTED;
/// How many horizons a cursor keeps at most.
const HORIZONS: usize = 8;

/// The rows above a cursor, committed or not, as READ UNCOMMITTED shows them.
pub(crate) struct Peek {
    /// The highest sequence number of any row.
    upto: i64,
    /// The number up to which there is no gap, if the count found none.
    whole: Option<i64>,
    /// The pending rows of the requested slots, and placeholders of a renumbering in progress.
    there: BTreeSet<i64>,
    /// The last number of `there`, if the limit cut the list.
    end: Option<i64>,
    grace: Duration,
    at_ms: u64,
}

/// A range of sequence numbers that are all committed, so no row can still appear within it.
#[derive(Default)]
pub(crate) struct Committed {
    after: i64,
    upto: i64,
    /// How many sequence numbers a full page spans, as seen at the last one; 0 if that is not known.
    page: i64,
}

impl Committed {
    /// Records how many sequence numbers a page spans that the row limit cut.
    pub(crate) fn note_page(&mut self, from: Seq, last: Seq) {
        self.page = last.0 - from.0;
    }

    /// Forgets the span, after a read that the committed range could not answer.
    pub(crate) fn forget_page(&mut self) {
        self.page = 0;
    }

    fn reaches(&self, from: i64) -> bool {
        self.after <= from && from.saturating_add(self.page) <= self.upto
    }
}

/// The number up to which every sequence number is committed, if that covers the next page.
///
/// A backlog is read by this check alone: its pages need no peek.
pub(crate) async fn committed(
    session: &mut Session,
    sql: &Sql,
    from: Seq,
) -> Result<Option<Seq>, DriverError> {
    let from = from.0;
    let page = session.committed.page;
    if page == 0 || page > COUNTED_MAX {
        return Ok(None);
    }
    if !session.committed.reaches(from) {
        let to = from.saturating_add(page.saturating_mul(4).clamp(COUNTED, COUNTED_MAX));
        let query = session.query(&*sql.committed).bind(from).bind(to);
        let row = query.fetch_one(&mut session.connection).await?;
        let (count, last) = (number(&row, 0)?, number(&row, 1)?);
        // As many rows as numbers: the range has no gap in which a row could still be committed.
        let upto = if count == last - from { last } else { from };
        session.committed = Committed { after: from, upto, page };
    }
    Ok(session.committed.reaches(from).then_some(Seq(session.committed.upto)))
}

/// Advances a cursor over numbers that are all committed and were all read.
pub(crate) fn pass(cursor: &mut Cursor, last: Seq) {
    cursor.decided = cursor.decided.max(last);
    cursor.waiting.retain(|horizon| horizon.upto > last);
}

/// Milliseconds on a clock that all stores of the process share, so that each can continue another's cursor.
fn clock_ms() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    u64::try_from(START.get_or_init(Instant::now).elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// The cursor to use on this session: the given one, or one from the start if it comes from another session.
///
/// Another connection may reach another server, or a server that crashed or was restored. Either may assign
/// sequence numbers again that the cursor has already passed.
pub(crate) fn start(session: &Session, given: &Cursor) -> Cursor {
    let origin = session.number;
    if given.origin == 0 || given.origin == origin {
        return Cursor { origin, ..given.clone() };
    }
    Cursor { origin, ..Cursor::default() }
}

/// Whether the table's sequence numbers were reset (TRUNCATE, or `AUTO_INCREMENT` set back), so that the next
/// one lies below the cursor.
///
/// Asks the server only if no row is left at or above the cursor, which is rare.
pub(crate) async fn went_back(
    session: &mut Session,
    sql: &Sql,
    cursor: &Cursor,
    peek: &Peek,
) -> Result<bool, DriverError> {
    if peek.upto >= cursor.decided.0 || session.server.dialect == Dialect::Tidb {
        return Ok(false);
    }
    let query = session.query(&*sql.next_number);
    let row = query.fetch_optional(&mut session.connection).await?;
    let next = row.and_then(|row| number_of(&row, 0)).unwrap_or_default();
    // 0 means that the server has not opened the table yet.
    Ok(next > 0 && next <= cursor.decided.0)
}

/// Reads all rows above the cursor, committed or not. It must run before the read of committed rows: that
/// read then sees every row that was committed at the time of the peek.
pub(crate) async fn peek(
    session: &mut Session,
    sql: &Sql,
    slots: &str,
    cursor: &Cursor,
    limit: i64,
) -> Result<Peek, DriverError> {
    if session.server.dialect == Dialect::Tidb {
        return locks::peek(session, sql, cursor, limit).await;
    }
    let after = cursor.decided.0;
    let open: BTreeSet<i64> =
        cursor.waiting.iter().flat_map(open_numbers).filter(|seq| *seq > after).collect();
    let text = fill(
        &sql.peek,
        &[
            ("{after}", after.to_string()),
            ("{counted_to}", after.saturating_add(COUNTED).to_string()),
            ("{slots}", slots.to_owned()),
            ("{limit}", limit.to_string()),
            ("{open}", list(&open)),
        ],
    );
    let at_ms = clock_ms();
    let sets = session.results(text).await?;
    let set = |place: usize| sets.get(place).map_or(&[][..], Vec::as_slice);
    // The peek reads this mark first. A renumbering that starts later draws numbers that no horizon covers
    // yet, so the cursor cannot pass them.
    let renumbering = numbers(set(2)).next().is_some_and(|mark| mark != 0);
    let counted: Vec<i64> =
        set(4).iter().flat_map(|row| [0, 1].map(|column| crate::row::text_number(row, column))).collect();
    let (count, last) =
        (counted.first().copied().unwrap_or_default(), counted.get(1).copied().unwrap_or_default());
    let upto = numbers(set(5)).next().unwrap_or_default();
    let mut there: BTreeSet<i64> = numbers(set(6)).collect();
    let still: BTreeSet<i64> = numbers(set(3)).collect();
    // A row that an earlier peek saw and that is gone was rolled back or deleted, so its number counts as
    // accounted for. During a renumbering it may only have made way for another row.
    let gone = open.difference(&still).filter(|seq| **seq <= last && !renumbering).count();
    let whole = last > after && count + i64::try_from(gone).unwrap_or_default() == last - after;
    let cut = there.len() >= usize::try_from(limit).unwrap_or(usize::MAX);
    let end = there.last().copied().filter(|_| cut);
    there.extend(numbers(set(7)));
    let grace = if renumbering { RENUMBERING_GRACE } else { GRACE };
    Ok(Peek { upto, whole: whole.then_some(last), there, end, grace, at_ms })
}

/// The sequence numbers that were written but not committed when the horizon was noted. `open` holds the time
/// of the note first, then these numbers.
fn open_numbers(horizon: &Horizon) -> impl Iterator<Item = i64> {
    horizon.open.iter().skip(1).filter_map(|seq| i64::try_from(*seq).ok())
}

fn noted_ms(horizon: &Horizon) -> u64 {
    horizon.open.first().copied().unwrap_or(u64::MAX)
}

impl Peek {
    /// How long a number may be assigned before its row shows.
    pub(crate) fn grace(&self) -> Duration {
        self.grace
    }

    /// The highest sequence number of any row, committed or not.
    pub(crate) fn upto(&self) -> Seq {
        Seq(self.upto)
    }

    /// Advances the cursor as far as the read and the peek before it allow. `wanted`
    /// is how far the read went.
    ///
    /// Returns true if the cursor could advance further after a short grace period.
    pub(crate) fn advance(&self, cursor: &mut Cursor, read: &BTreeSet<i64>, wanted: Seq) -> bool {
        // The peek saw these rows and the later read did not: they are not committed, or are gone. The cursor
        // stops before the first of them, however long its transaction takes.
        let missing: Vec<i64> = self.there.difference(read).copied().filter(|seq| *seq <= wanted.0).collect();
        let mut bound = wanted.0;
        if let Some(first) = missing.first() {
            bound = bound.min(first - 1);
        }
        // Beyond its limit the peek has not looked.
        if let Some(end) = self.end {
            bound = bound.min(end);
        }
        let grace_ms = u64::try_from(self.grace.as_millis()).unwrap_or(u64::MAX);
        // All numbers up to a ripe horizon were assigned at least a grace period ago, so their rows have been
        // written. Those of our slots are in `read`, in `missing`, or gone.
        let ripe = |horizon: &Horizon| noted_ms(horizon).saturating_add(grace_ms) <= self.at_ms;
        let passed =
            cursor.waiting.iter().filter(|horizon| ripe(horizon)).map(|horizon| horizon.upto.0).max();
        let sure = passed.max(self.whole).unwrap_or_default();
        cursor.decided = cursor.decided.max(Seq(bound.min(sure)));
        let decided = cursor.decided;
        // The farthest ripe horizon covers the other ripe ones.
        cursor
            .waiting
            .retain(|horizon| horizon.upto > decided && (!ripe(horizon) || Some(horizon.upto.0) == passed));
        self.note(cursor, &missing);
        bound > decided.0 && grace_ms <= 1_000
    }

    /// Notes a horizon at the highest number seen, at most one per quarter of the grace period. Otherwise it
    /// adds the uncommitted numbers to the last horizon: `peek` must know every number that was seen once, to
    /// recognise that it is gone.
    fn note(&self, cursor: &mut Cursor, missing: &[i64]) {
        if self.upto <= cursor.decided.0 {
            return;
        }
        let missing = missing.iter().filter_map(|seq| u64::try_from(*seq).ok());
        let spaced = cursor.waiting.last().is_none_or(|last| {
            noted_ms(last).saturating_add(u64::try_from(self.grace.as_millis() / 4).unwrap_or(u64::MAX))
                <= self.at_ms
        });
        if spaced && cursor.waiting.len() < HORIZONS {
            let open = std::iter::once(self.at_ms).chain(missing).collect();
            cursor.waiting.push(Horizon { upto: Seq(self.upto), open });
        } else if let Some(last) = cursor.waiting.last_mut() {
            let new: Vec<u64> = missing.filter(|seq| !last.open[1..].contains(seq)).collect();
            last.open.extend(new);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peek(upto: i64, whole: Option<i64>, there: &[i64], at_ms: u64) -> Peek {
        Peek { upto, whole, there: there.iter().copied().collect(), end: None, grace: GRACE, at_ms }
    }

    fn read(seqs: &[i64]) -> BTreeSet<i64> {
        seqs.iter().copied().collect()
    }

    #[test]
    fn numbers_without_a_gap_are_passed_at_once() {
        let mut cursor = Cursor::default();
        peek(3, Some(3), &[1, 2, 3], 0).advance(&mut cursor, &read(&[1, 2, 3]), Seq(3));
        assert_eq!(cursor.decided, Seq(3));
        assert!(cursor.waiting.is_empty());
    }

    #[test]
    fn a_row_that_is_not_committed_is_not_passed_however_long_it_takes() {
        let mut cursor = Cursor::default();
        for at_ms in [0, 50, 1_000, 100_000] {
            peek(3, Some(3), &[1, 2, 3], at_ms).advance(&mut cursor, &read(&[1, 3]), Seq(3));
            assert_eq!(cursor.decided, Seq(1));
        }
    }

    #[test]
    fn a_number_that_never_showed_is_passed_after_the_grace() {
        let mut cursor = Cursor::default();
        for (at_ms, decided) in [(0, 0), (99, 0), (100, 3)] {
            peek(3, None, &[3], at_ms).advance(&mut cursor, &read(&[3]), Seq(3));
            assert_eq!(cursor.decided, Seq(decided), "after {at_ms} ms");
        }
    }

    #[test]
    fn what_is_committed_reaches_from_where_it_was_counted_to_where_it_ends() {
        let committed = Committed { after: 10, upto: 20, page: 5 };
        let reached: Vec<i64> = (0..30).filter(|from| committed.reaches(*from)).collect();
        assert_eq!(reached, [10, 11, 12, 13, 14, 15]);
    }

    #[test]
    fn horizons_are_bounded_and_numbers_seen_are_kept() {
        let mut cursor = Cursor::default();
        for n in 1..200_u64 {
            let upto = i64::try_from(n).unwrap() + 10;
            peek(upto, None, &[2], n * 10).advance(&mut cursor, &read(&[]), Seq(upto));
            assert!(cursor.waiting.len() <= HORIZONS);
            assert!(cursor.waiting.iter().flat_map(open_numbers).any(|seq| seq == 2));
        }
        assert_eq!(cursor.decided, Seq(1));
    }
}
