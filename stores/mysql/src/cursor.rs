//! How far the next read may start: past every number that no open transaction can still commit.
//!
//! The server lists no writers to those without rights, and its list may be old. But a read of what is not committed sees
//! rows as soon as they are written. So a number that was drawn is either seen there, or was there before and has gone, or
//! is between being drawn and being written, which is a matter of microseconds: numbers that never showed are passed after
//! a grace. One more can come back: a row that its transaction deletes and brings back by a savepoint. If that takes longer than
//! the grace, the engine's next sweep finds it.

use std::collections::BTreeSet;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use pillarbox::model::Seq;
use pillarbox::port::{Cursor, Horizon};

use crate::connection::{Session, number, numbers};
use crate::error::Failure;
use crate::row::number_of;
use crate::sql::{Sql, fill, list};

/// How long a server may take to write a row whose number it has drawn. A thread of it would have to be stopped for that
/// long between two steps; what such a thread then writes is found by the engine's next sweep.
pub(crate) const GRACE: Duration = Duration::from_millis(100);
/// The same while rows get new numbers, which makes others disappear for a moment: longer than that can last.
const RENUMBERING_GRACE: Duration = Duration::from_secs(60);
/// The same where nobody may read what is not committed (TiDB): as long as a transaction is likely to last.
const BLIND_GRACE: Duration = Duration::from_secs(30);
/// So many numbers above the cursor are counted to see whether one is missing.
const COUNTED: i64 = 4_096;
/// So many at most, where a page reaches that far.
const COUNTED_MAX: i64 = 4 * COUNTED;
/// As many horizons as are worth waiting for at once.
const HORIZONS: usize = 8;
/// TiDB knows this isolation, but does not have it.
const NO_SUCH_ISOLATION: u16 = 8048;

/// What is written above a cursor, committed or not.
pub(crate) struct Peek {
    /// The last number that was seen written.
    upto: i64,
    /// Up to where no number is missing, if that was counted.
    whole: Option<i64>,
    /// Pending rows of the slots that are read.
    there: BTreeSet<i64>,
    /// Where these end, if there may be more.
    end: Option<i64>,
    grace: Duration,
    at_ms: u64,
}

/// Numbers of which every one is committed: nothing can still come among them.
#[derive(Default)]
pub(crate) struct Committed {
    after: i64,
    upto: i64,
    /// How far a page reaches, as far as is known; 0 where no more than a page is waiting.
    page: i64,
}

impl Committed {
    /// Notes how far a page reached that a limit cut.
    pub(crate) fn note_page(&mut self, from: Seq, last: Seq) {
        self.page = last.0 - from.0;
    }

    /// What is known says nothing here.
    pub(crate) fn forget_page(&mut self) {
        self.page = 0;
    }

    fn reaches(&self, from: i64) -> bool {
        self.after <= from && from.saturating_add(self.page) <= self.upto
    }
}

/// Up to where every number is committed, if that is as far as the next page is likely to reach. A backlog is read by this
/// alone: a page of it needs no look at what is not committed.
pub(crate) async fn committed(session: &mut Session, sql: &Sql, from: Seq) -> Result<Option<Seq>, Failure> {
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
        let upto = if count == last - from { last } else { from };
        session.committed = Committed { after: from, upto, page };
    }
    Ok(session.committed.reaches(from).then_some(Seq(session.committed.upto)))
}

/// Takes a cursor on over numbers that are all committed and read.
pub(crate) fn pass(cursor: &mut Cursor, last: Seq) {
    cursor.decided = cursor.decided.max(last);
    cursor.waiting.retain(|horizon| horizon.upto > last);
}

/// Milliseconds on a clock that all stores of the process share, so that any of them can go on with a cursor.
fn clock_ms() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    u64::try_from(START.get_or_init(Instant::now).elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// A cursor for this connection: behind another one may be another server, or one that crashed or was restored, which gives
/// numbers again that the cursor has passed.
pub(crate) fn start(session: &Session, given: &Cursor) -> Cursor {
    let origin = session.number;
    if given.origin == 0 || given.origin == origin {
        return Cursor { origin, ..given.clone() };
    }
    Cursor { origin, ..Cursor::default() }
}

/// Whether numbers went back (TRUNCATE, `AUTO_INCREMENT` set): the next one lies below the cursor. The server is asked only
/// where no row is left up there, which is rare.
pub(crate) async fn went_back(
    session: &mut Session,
    sql: &Sql,
    cursor: &Cursor,
    peek: &Peek,
) -> Result<bool, Failure> {
    if peek.upto >= cursor.decided.0 || session.server.tidb {
        return Ok(false);
    }
    let query = session.query(&*sql.next_number);
    let row = query.fetch_optional(&mut session.connection).await?;
    let next = row.and_then(|row| number_of(&row, 0)).unwrap_or_default();
    // A table that nobody has opened yet tells 0.
    Ok(next > 0 && next <= cursor.decided.0)
}

/// Looks at what is written, committed or not. Before the rows are read: what is committed by then, the read sees.
pub(crate) async fn peek(
    session: &mut Session,
    sql: &Sql,
    slots: &str,
    cursor: &Cursor,
    limit: i64,
) -> Result<Peek, Failure> {
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
    let sets = match session.results(text).await {
        Ok(sets) => sets,
        Err(failure) if failure.number() == Some(NO_SUCH_ISOLATION) => return blind(session, sql).await,
        Err(failure) => return Err(failure),
    };
    let set = |place: usize| sets.get(place).map_or(&[][..], Vec::as_slice);
    // First of all: numbers drawn after this are in no horizon yet.
    let renumbering = numbers(set(2)).next().is_some_and(|mark| mark != 0);
    let counted: Vec<i64> =
        set(4).iter().flat_map(|row| [0, 1].map(|column| crate::row::text_number(row, column))).collect();
    let (count, last) =
        (counted.first().copied().unwrap_or_default(), counted.get(1).copied().unwrap_or_default());
    let upto = numbers(set(5)).next().unwrap_or_default();
    let mut there: BTreeSet<i64> = numbers(set(6)).collect();
    let still: BTreeSet<i64> = numbers(set(3)).collect();
    // What was there once and is no more was rolled back, or deleted: it can't come again, unless it makes way for another row.
    let gone = open.difference(&still).filter(|seq| **seq <= last && !renumbering).count();
    let whole = last > after && count + i64::try_from(gone).unwrap_or_default() == last - after;
    let cut = there.len() >= usize::try_from(limit).unwrap_or(usize::MAX);
    let end = there.last().copied().filter(|_| cut);
    there.extend(numbers(set(7)));
    let grace = if renumbering { RENUMBERING_GRACE } else { GRACE };
    Ok(Peek { upto, whole: whole.then_some(last), there, end, grace, at_ms })
}

/// Where only what is committed can be seen.
async fn blind(session: &mut Session, sql: &Sql) -> Result<Peek, Failure> {
    let at_ms = clock_ms();
    let sets = session.results(format!("SELECT coalesce(max(seq), 0) FROM {}", sql.event)).await?;
    let upto = sets.iter().flat_map(|set| numbers(set)).next().unwrap_or_default();
    Ok(Peek { upto, whole: None, there: BTreeSet::new(), end: None, grace: BLIND_GRACE, at_ms })
}

/// The numbers that were written and not committed when a horizon was made; before them stands when that was.
fn open_numbers(horizon: &Horizon) -> impl Iterator<Item = i64> {
    horizon.open.iter().skip(1).filter_map(|seq| i64::try_from(*seq).ok())
}

fn noted_ms(horizon: &Horizon) -> u64 {
    horizon.open.first().copied().unwrap_or(u64::MAX)
}

impl Peek {
    /// The last number that was seen written.
    pub(crate) fn upto(&self) -> Seq {
        Seq(self.upto)
    }

    /// Takes the cursor as far as what was read and what was seen before the read allow. `wanted` is how far the read
    /// itself went. True if only the grace stands between.
    pub(crate) fn advance(&self, cursor: &mut Cursor, read: &BTreeSet<i64>, wanted: Seq) -> bool {
        let missing: Vec<i64> = self.there.difference(read).copied().filter(|seq| *seq <= wanted.0).collect();
        let mut bound = wanted.0;
        if let Some(first) = missing.first() {
            bound = bound.min(first - 1);
        }
        if let Some(end) = self.end {
            bound = bound.min(end);
        }
        let grace_ms = u64::try_from(self.grace.as_millis()).unwrap_or(u64::MAX);
        let ripe = |horizon: &Horizon| noted_ms(horizon).saturating_add(grace_ms) <= self.at_ms;
        let passed =
            cursor.waiting.iter().filter(|horizon| ripe(horizon)).map(|horizon| horizon.upto.0).max();
        let sure = passed.max(self.whole).unwrap_or_default();
        cursor.decided = cursor.decided.max(Seq(bound.min(sure)));
        let decided = cursor.decided;
        // Of those whose time has come the farthest says all.
        cursor
            .waiting
            .retain(|horizon| horizon.upto > decided && (!ripe(horizon) || Some(horizon.upto.0) == passed));
        self.note(cursor, &missing);
        bound > decided.0 && grace_ms <= 1_000
    }

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
