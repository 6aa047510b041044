//! The peek on TiDB, which does not show uncommitted rows: the number of an open transaction is known by its
//! lock.
//!
//! A transaction locks the sequence number of each row that it writes until it ends. So the store reads the
//! committed numbers above the cursor, and tries to lock each number that is missing among them without
//! waiting. A number that is locked belongs to an open transaction, and the cursor stays below it. The page
//! is read afterwards, so it contains every row that was committed when its number was found free.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::TryStreamExt;
use pillarbox::port::Cursor;
use sqlx::{AssertSqlSafe, Either};

use super::{COUNTED, Peek, clock_ms, open_numbers};
use crate::connection::{Session, numbers};
use crate::error::DriverError;
use crate::sql::{Sql, fill};

/// How long a server may take to lock a number after it has assigned it: a call to the storage, for all rows of
/// a statement. An autocommitted insert takes its lock when it commits.
const GRACE: Duration = Duration::from_millis(500);
/// How many missing numbers are tried at most in one peek. They take one round trip.
const TRIED: i64 = 512;
/// If more are missing, how many of the lowest and of the highest are tried. The others are spread evenly.
const TRIED_LOWEST: i64 = 128;
const TRIED_HIGHEST: i64 = 256;
/// The error of a NOWAIT read of a row that another transaction has locked.
const LOCKED: u16 = 3572;

pub(super) async fn peek(
    session: &mut Session,
    sql: &Sql,
    cursor: &Cursor,
    limit: i64,
) -> Result<Peek, DriverError> {
    let after = cursor.decided.0;
    let limit = limit.max(COUNTED);
    let parts = [("{after}", after.to_string()), ("{limit}", limit.to_string())];
    let at_ms = clock_ms();
    let sets = session.results(fill(&sql.numbers, &parts)).await?;
    let committed: Vec<i64> = sets.iter().flat_map(|set| numbers(set)).collect();
    let upto = committed.last().copied().unwrap_or(after);
    let end = Some(upto).filter(|_| i64::try_from(committed.len()).unwrap_or(i64::MAX) >= limit);
    let missing = Missing::between(after, &committed);
    let open = first_open(session, sql, &missing).await?;
    // A number that an earlier peek found locked and that is free now was rolled back or is committed.
    let seen: BTreeSet<i64> = cursor.waiting.iter().flat_map(open_numbers).collect();
    let whole = missing.count <= TRIED && missing.all().all(|seq| seen.contains(&seq) && Some(seq) != open);
    Ok(Peek {
        upto,
        whole: whole.then_some(upto),
        there: open.into_iter().collect(),
        end,
        grace: GRACE,
        at_ms,
    })
}

/// The lowest missing number that may belong to an open transaction.
async fn first_open(session: &mut Session, sql: &Sql, missing: &Missing) -> Result<Option<i64>, DriverError> {
    let tried = missing.tried();
    if tried.is_empty() {
        return Ok(None);
    }
    let tries = tried.iter().map(|seq| fill(&sql.number_open, &[("{seq}", seq.to_string())]));
    let text: Vec<String> = std::iter::once("START TRANSACTION".to_owned()).chain(tries).collect();
    let free = free(session, text.join("; ")).await;
    session.results("ROLLBACK".to_owned()).await?;
    let Some(free) = free? else { return Ok(None) };
    // If not every number is tried, all that is known is that those up to the last free one are free.
    let last_free = free.checked_sub(1).and_then(|place| tried.get(place)).copied();
    Ok(missing.first_after(last_free.unwrap_or(i64::MIN)))
}

/// How many numbers are free before the first locked one; none if no number is locked. The server runs the
/// statements in order and stops at the one that fails.
async fn free(session: &mut Session, text: String) -> Result<Option<usize>, DriverError> {
    let mut stream = sqlx::raw_sql(AssertSqlSafe(text)).fetch_many(&mut session.connection);
    let mut answered = 0_usize;
    loop {
        match stream.try_next().await.map_err(DriverError::from) {
            Ok(Some(Either::Left(_))) => answered += 1,
            Ok(Some(Either::Right(_))) => {}
            Ok(None) => return Ok(None),
            // The first answer is that of START TRANSACTION.
            Err(failure) if failure.number() == Some(LOCKED) => return Ok(Some(answered.saturating_sub(1))),
            Err(failure) => return Err(failure),
        }
    }
}

/// The numbers without a committed row, in order.
#[derive(Debug)]
struct Missing {
    /// Runs of consecutive numbers, each with its first and its last.
    runs: Vec<(i64, i64)>,
    count: i64,
}

impl Missing {
    /// The numbers that are missing above `after` and below the last committed one.
    fn between(after: i64, committed: &[i64]) -> Self {
        let before = std::iter::once(after).chain(committed.iter().copied());
        let runs: Vec<(i64, i64)> = before
            .zip(committed)
            .map(|(before, next)| (before + 1, next - 1))
            .filter(|(first, last)| first <= last)
            .collect();
        let count = runs.iter().map(|(first, last)| last - first + 1).sum();
        Self { runs, count }
    }

    fn all(&self) -> impl Iterator<Item = i64> {
        self.runs.iter().flat_map(|(first, last)| *first..=*last)
    }

    fn first_after(&self, seq: i64) -> Option<i64> {
        let run = self.runs.iter().find(|(_, last)| *last > seq)?;
        Some(run.0.max(seq.saturating_add(1)))
    }

    /// The numbers to try: all, or a sample if they are too many. Long runs are left by purged rows; numbers of
    /// open transactions are at their start, where the cursor waits for them, or at their end.
    fn tried(&self) -> Vec<i64> {
        if self.count <= TRIED {
            return self.all().collect();
        }
        let between = self.count - TRIED_LOWEST - TRIED_HIGHEST;
        let spread = TRIED - TRIED_LOWEST - TRIED_HIGHEST;
        let places = (0..TRIED_LOWEST)
            .chain((0..spread).map(|nth| TRIED_LOWEST + between / spread * nth))
            .chain(self.count - TRIED_HIGHEST..self.count);
        let (mut runs, mut skipped) = (self.runs.iter().peekable(), 0);
        let mut tried = Vec::new();
        for place in places {
            while let Some((first, last)) = runs.next_if(|(first, last)| skipped + last - first < place) {
                skipped += last - first + 1;
            }
            tried.extend(runs.peek().map(|(first, _)| first + place - skipped));
        }
        tried.dedup();
        tried
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_numbers_are_those_without_a_committed_row() {
        let missing = Missing::between(3, &[4, 6, 7, 11]);
        assert_eq!(missing.all().collect::<Vec<_>>(), [5, 8, 9, 10]);
        assert_eq!(missing.count, 4);
        assert_eq!(missing.tried(), [5, 8, 9, 10]);
        assert_eq!(Missing::between(3, &[]).count, 0);
    }

    #[test]
    fn the_first_number_that_may_be_open_follows_the_last_free_one() {
        let missing = Missing::between(3, &[4, 6, 7, 11]);
        for (free, open) in [(i64::MIN, Some(5)), (5, Some(8)), (8, Some(9)), (10, None)] {
            assert_eq!(missing.first_after(free), open, "after {free}");
        }
    }

    #[test]
    fn of_too_many_missing_numbers_a_sample_is_tried() {
        let missing = Missing::between(0, &[1_000, 1_001, 5_000_000]);
        let tried = missing.tried();
        assert!(tried.len() <= 512, "{}", tried.len());
        assert!(tried.is_sorted());
        assert_eq!(tried[..128], (1..=128).collect::<Vec<i64>>());
        assert_eq!(tried[tried.len() - 256..], (4_999_744..=4_999_999).collect::<Vec<i64>>());
        assert!(tried.iter().all(|seq| ![1_000, 1_001, 5_000_000].contains(seq)));
    }
}
