//! Reading pending rows in order, along a cursor.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::TryStreamExt;
use jiff::Timestamp;
use pillarbox::model::{Column, Row, Seq, SlotSet, WithClaim};
use pillarbox::port::{ByteLimits, Cursor, Fetch, Fetched, Scope};
use pillarbox_store_kit::{End, Page, put_in_place, read_row};
use sqlx::mysql::{MySql, MySqlArguments};
use sqlx::query::Query;

use crate::connection::Session;
use crate::cursor;
use crate::error::DriverError;
use crate::row::{self, Values, time_of};
use crate::sql::{Sql, fill, list};
use crate::time::{now_sql, youngest_sql};

impl Session {
    /// How many rows to ask for at most. The server loads the contents of all rows up to the limit to learn their
    /// sizes, although the byte limit ends the read earlier, so this limit follows the size of the rows that were
    /// read last.
    pub(crate) fn bounded(&self, rows: usize, limits: &ByteLimits) -> usize {
        bounded(rows, limits.total, self.row_bytes)
    }

    /// Notes the size of the rows that were read.
    pub(crate) fn note_sizes(&mut self, rows: &[Row]) {
        let bytes: usize = rows.iter().map(|row| row.bytes).sum();
        self.row_bytes = bytes.checked_div(rows.len()).unwrap_or(self.row_bytes);
    }
}

fn bounded(rows: usize, bytes: usize, row_bytes: usize) -> usize {
    const LEAST: usize = 16;
    let fitting = bytes.checked_div(row_bytes).map(|rows| rows.saturating_mul(2).max(LEAST));
    fitting.map_or(rows, |fitting| rows.min(fitting))
}

pub(crate) async fn fetch(session: &mut Session, sql: &Sql, request: &Fetch) -> Result<Fetched, DriverError> {
    let rows = session.bounded(request.rows, &request.bytes);
    let request = &Fetch { rows, ..request.clone() };
    // One row more than requested shows whether there are more.
    let limit = i64::try_from(request.rows).unwrap_or(i64::MAX).saturating_add(1);
    let now = ("{now}", now_sql(request.now));
    let most = ("{most}", request.bytes.at_once(request.rows).to_string());
    match &request.scope {
        Scope::Slots { slots, cursor } => fetch_slots(session, sql, request, slots, cursor, limit).await,
        Scope::Group { slot, group, from } => {
            let query = session.query(fill(&sql.fetch_group, &[now, most]));
            let query = query.bind(from.0).bind(slot.0).bind(group.as_str().to_owned()).bind(limit);
            let origin = session.number;
            let fetched = answer(session, sql, request, query).await?;
            Ok(Fetched { cursor: Cursor { origin, ..Cursor::default() }, ..fetched })
        }
        Scope::Due => {
            let youngest = ("{youngest}", youngest_sql(request.now, request.skip_recent));
            let query = session.query(fill(&sql.fetch_due, &[now, most, youngest])).bind(limit);
            answer(session, sql, request, query).await
        }
    }
}

/// Answers a read without a cursor.
async fn answer(
    session: &mut Session,
    sql: &Sql,
    request: &Fetch,
    query: Query<'_, MySql, MySqlArguments>,
) -> Result<Fetched, DriverError> {
    let (page, now) = read(session, sql, request, query).await?;
    let now = match now {
        Some(now) => now,
        None => clock(session, sql).await?,
    };
    Ok(Fetched { rows: page.rows, cursor: Cursor::default(), more: page.end == End::Cut, now })
}

/// The database's current time.
pub(crate) async fn clock(session: &mut Session, sql: &Sql) -> Result<Timestamp, DriverError> {
    let row = session.query(&*sql.clock).fetch_one(&mut session.connection).await?;
    Ok(time_of(&row, 0).unwrap_or_default())
}

async fn fetch_slots(
    session: &mut Session,
    sql: &Sql,
    request: &Fetch,
    slots: &SlotSet,
    given: &Cursor,
    limit: i64,
) -> Result<Fetched, DriverError> {
    let mut cursor = cursor::start(session, given);
    let slots = slots_sql(slots);
    let parts = [
        ("{now}", now_sql(request.now)),
        ("{most}", request.bytes.at_once(request.rows).to_string()),
        ("{slots}", slots.clone()),
    ];
    let text = fill(&sql.fetch_slots, &parts);
    if let Some(fetched) = fetch_committed(session, sql, request, &text, &cursor, limit).await? {
        return Ok(fetched);
    }
    let mut patient = true;
    loop {
        let peek = cursor::peek(session, sql, &slots, &cursor, limit).await?;
        // Sequence numbers start over, so the cursor must too.
        if cursor::went_back(session, sql, &cursor, &peek).await? {
            cursor = Cursor { origin: cursor.origin, ..Cursor::default() };
            continue;
        }
        let query = session.query(&*text).bind(cursor.decided.0).bind(limit);
        let (page, now) = read(session, sql, request, query).await?;
        let wanted = match page.end {
            End::Nothing => peek.upto(),
            End::Cut => page.rows.last().map_or(cursor.decided, |row| row.seq),
            End::Young(seq) => Seq(seq.0 - 1),
        };
        let seen: BTreeSet<i64> = page.rows.iter().map(|row| row.seq.0).collect();
        let from = cursor.decided;
        let short = peek.advance(&mut cursor, &seen, wanted);
        // In a backlog, a cursor that stays behind would make the next fetch read the same rows again. So
        // wait once, for the grace period, and read again.
        if short && std::mem::take(&mut patient) && page.end == End::Cut {
            // The rows of this read are not returned, so the cursor must not pass them.
            cursor.decided = from;
            tokio::time::sleep(peek.grace() + Duration::from_millis(1)).await;
            continue;
        }
        let now = match now {
            Some(now) => now,
            None => clock(session, sql).await?,
        };
        if page.end == End::Cut {
            session.committed.note_page(from, wanted);
        }
        return Ok(Fetched { rows: page.rows, cursor, more: page.end == End::Cut, now });
    }
}

/// Reads a page from the middle of a backlog, where all numbers up to its end are committed. None if that is
/// not known, or if the page is not full.
async fn fetch_committed(
    session: &mut Session,
    sql: &Sql,
    request: &Fetch,
    text: &str,
    cursor: &Cursor,
    limit: i64,
) -> Result<Option<Fetched>, DriverError> {
    // The count must run before the read: the read then sees every row that was committed
    // at the time of the count.
    let committed = cursor::committed(session, sql, cursor.decided).await?;
    if let Some(upto) = committed {
        let query = session.query(text).bind(cursor.decided.0).bind(limit);
        let (page, now) = read(session, sql, request, query).await?;
        if let (End::Cut, Some(now), Some(row)) = (page.end, now, page.rows.last())
            && row.seq <= upto
        {
            let (last, mut cursor) = (row.seq, cursor.clone());
            session.committed.note_page(cursor.decided, last);
            cursor::pass(&mut cursor, last);
            return Ok(Some(Fetched { rows: page.rows, cursor, more: true, now }));
        }
    }
    session.committed.forget_page();
    Ok(None)
}

/// The SQL condition for slots. The numbers come from the program, so they need no quoting. Delayed rows and
/// messages of the queue have negative slots and never match.
pub(crate) fn slots_sql(slots: &SlotSet) -> String {
    let between = |(first, last)| format!("slot BETWEEN {first} AND {last}");
    let ranges: Vec<String> = slots.delivered_ranges().into_iter().map(between).collect();
    if ranges.is_empty() { "FALSE".to_owned() } else { ranges.join(" OR ") }
}

/// Reads rows within the limits, and the database's time if at least one row was found.
async fn read<'r>(
    session: &mut Session,
    sql: &Sql,
    request: &'r Fetch,
    query: Query<'_, MySql, MySqlArguments>,
) -> Result<(Page<'r>, Option<Timestamp>), DriverError> {
    let (mut page, mut now, mut decoder) = (Page::new(request), request.now, None);
    let mut found = query.fetch(&mut session.connection);
    while let Some(row) = found.try_next().await? {
        let (decoder, values) = (&*decoder.get_or_insert_with(|| row::decoder(&row)), Values(&row));
        let told = || decoder.time(&values, Column::Now).unwrap_or_default();
        if page.admit(decoder, &values, *now.get_or_insert_with(told)).is_break() {
            break;
        }
    }
    drop(found);
    if !page.large.is_empty() {
        let most = ("{most}", request.bytes.row.to_string());
        let parts = [("{now}", now_sql(request.now)), most, ("{seqs}", list(&page.large))];
        let query = session.once(fill(&sql.fetch_large, &parts));
        let found = query.fetch_all(&mut session.connection).await?;
        let loaded = row::read_all(&found, |decoder, values| {
            read_row(decoder, values, WithClaim::No, &request.bytes).into_inner()
        });
        put_in_place(&mut page.rows, &page.large, loaded.into_iter());
    }
    session.note_sizes(&page.rows);
    Ok((page, now))
}

#[cfg(test)]
mod tests {
    use super::bounded;

    /// PBX-013
    #[test]
    fn as_many_rows_are_asked_for_as_their_bytes_have_room_for() {
        const MIB: usize = 1 << 20;
        assert_eq!(bounded(1_000, 64 * MIB, 0), 1_000);
        assert_eq!(bounded(1_000, 64 * MIB, 300), 1_000);
        assert_eq!(bounded(1_000, 64 * MIB, 2 * MIB), 64);
        assert_eq!(bounded(1_000, MIB, 2 * MIB), 16);
        assert_eq!(bounded(10, MIB, 2 * MIB), 10);
        assert_eq!(bounded(1_000, usize::MAX, 1), 1_000);
    }
}
