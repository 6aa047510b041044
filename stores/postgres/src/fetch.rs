//! Reads pending rows in order, and decides how far the cursor may advance.

use futures_util::TryStreamExt;
use jiff::Timestamp;
use pillarbox::model::{Column, Lane, Seq, SlotSet, WithClaim};
use pillarbox::port::{Cursor, Fetch, Fetched, Horizon, Scope};
use pillarbox_store_kit::{End, Page, put_in_place, read_row};
use sqlx::Row as _;

use crate::connection::{Query, Session};
use crate::error::DriverError;
use crate::row::{self, Values};
use crate::sql::Sql;
use crate::time::{Time, skipped};

/// The most horizons that a cursor keeps. More would not help, because the oldest one clears first.
const HORIZONS: usize = 8;
/// Stands for every prepared transaction. PREPARE TRANSACTION changes the virtual id of a transaction, so a
/// prepared one may be any of those listed before.
const PREPARED: u64 = u64::MAX;

pub(crate) async fn fetch(session: &mut Session, sql: &Sql, request: &Fetch) -> Result<Fetched, DriverError> {
    // One more row than asked for tells whether more rows follow.
    let limit = i64::try_from(request.rows).unwrap_or(i64::MAX).saturating_add(1);
    match &request.scope {
        Scope::Slots { slots, cursor } => fetch_slots(session, sql, request, slots, cursor, limit).await,
        Scope::Group { slot, group, from } => {
            let query = session.query(&sql.fetch_group);
            let query =
                query.bind(at_once(request)).bind(from.0).bind(slot.0).bind(group.as_str()).bind(limit);
            answer(session, sql, request, query).await
        }
        Scope::Due => {
            let query = session.query(&sql.fetch_due);
            let query = query.bind(at_once(request)).bind(request.now.map(Time));
            let query = query.bind(skipped(request.skip_recent)).bind(limit);
            answer(session, sql, request, query).await
        }
    }
}

/// A read that does not move the cursor.
async fn answer(
    session: &mut Session,
    sql: &Sql,
    request: &Fetch,
    query: Query<'_>,
) -> Result<Fetched, DriverError> {
    let Found { page, now, mark } = read(session, sql, request, query).await?;
    let now = match now {
        Some(now) => now,
        None => clock(session, sql).await?,
    };
    let origin = mark.map(|(run, file)| session.origin(run, file)).unwrap_or_default();
    let cursor = Cursor { origin, ..Cursor::default() };
    Ok(Fetched { rows: page.rows, cursor, more: page.end == End::Cut, now })
}

/// The database's current time.
pub(crate) async fn clock(session: &mut Session, sql: &Sql) -> Result<Timestamp, DriverError> {
    let row = session.query(&sql.clock).fetch_one(&mut session.connection).await?;
    Ok(row.try_get::<Time, _>(0)?.0)
}

async fn fetch_slots(
    session: &mut Session,
    sql: &Sql,
    request: &Fetch,
    slots: &SlotSet,
    cursor: &Cursor,
    limit: i64,
) -> Result<Fetched, DriverError> {
    let mut cursor = cursor.clone();
    let mut now = request.now;
    // List open transactions before reading rows: the read then sees every transaction that has ended by the
    // time of the list.
    if vouched(&cursor).is_none() {
        now = now.or(Some(look(session, sql, &mut cursor).await?));
    }
    let bound = vouched(&cursor).unwrap_or(cursor.decided);
    let query = slots_query(session, sql, slots, cursor.decided, request, limit);
    let (page, read_at) = match query {
        Some(query) => {
            let found = read(session, sql, request, query).await?;
            (found.page, found.now)
        }
        None => (Page::new(request), now),
    };
    // The cursor advances only past rows that this read covered, and only up to the vouched horizon: above
    // it, an open transaction may still commit a row that this read did not see.
    let seen = match page.end {
        End::Nothing => Seq(i64::MAX),
        End::Cut => page.rows.last().map_or(cursor.decided, |row| row.seq),
        End::Young(seq) => Seq(seq.0 - 1),
    };
    cursor.decided = cursor.decided.max(seen.min(bound));
    let decided = cursor.decided;
    cursor.waiting.retain(|horizon| horizon.upto > decided);
    let now = match read_at.or(now) {
        Some(now) => now,
        None => {
            // This look comes after the read, so a horizon that it clears counts only for the next read.
            let now = look(session, sql, &mut cursor).await?;
            if cursor.decided < decided {
                // The look has reset the cursor: the server may assign numbers again below where this read
                // began. Read again from the start.
                return Box::pin(fetch_slots(session, sql, request, slots, &cursor, limit)).await;
            }
            now
        }
    };
    Ok(Fetched { rows: page.rows, cursor, more: page.end == End::Cut, now })
}

/// How far a read may move the cursor: to the highest horizon whose transactions have all ended. `None` if no
/// horizon above the cursor has cleared.
fn vouched(cursor: &Cursor) -> Option<Seq> {
    let settled = cursor.waiting.iter().filter(|horizon| horizon.open.is_empty());
    settled.map(|horizon| horizon.upto).max().filter(|upto| *upto > cursor.decided)
}

/// Lists the open writers, removes ended ones from the horizons, and adds a horizon if there is room. Returns
/// the database's time.
///
/// The statement reads the last sequence number before it lists the transactions. A transaction draws numbers
/// only while it holds a write lock on the table, so every open transaction with a number up
/// to that one is listed.
async fn look(session: &mut Session, sql: &Sql, cursor: &mut Cursor) -> Result<Timestamp, DriverError> {
    let row = session.query(&sql.horizon).fetch_one(&mut session.connection).await?;
    let upto = Seq(row.try_get(0)?);
    let open: Vec<u64> = row.try_get::<Vec<String>, _>(1)?.iter().map(|name| transaction(name)).collect();
    let origin = session.origin(row.try_get::<Time, _>(2)?.0.as_microsecond(), row.try_get(4)?);
    let now = row.try_get::<Time, _>(3)?.0;
    if (cursor.origin != 0 && cursor.origin != origin) || upto < cursor.decided {
        // Another server, a server that crashed or was restored, or a sequence that was set back: numbers
        // that this cursor has passed may be assigned again, and done marks may be
        // lost. Start again from zero.
        *cursor = Cursor::default();
    }
    cursor.origin = origin;
    for horizon in &mut cursor.waiting {
        // While any prepared transaction is open, it may be any writer that has left the list.
        horizon.open.retain(|writer| open.contains(writer) || open.contains(&PREPARED));
    }
    if upto > cursor.decided && cursor.waiting.len() < HORIZONS {
        cursor.waiting.push(Horizon { upto, open });
    }
    Ok(now)
}

/// Packs a virtual transaction id, `backend/local`, into one number. Any other
/// form is a prepared transaction.
fn transaction(name: &str) -> u64 {
    let parts = name.split_once('/');
    let numbers =
        parts.and_then(|(backend, local)| Some((backend.parse::<u32>().ok()?, local.parse::<u32>().ok()?)));
    numbers.map_or(PREPARED, |(backend, local)| u64::from(backend) << 32 | u64::from(local))
}

/// The statement that reads these slots. Adjacent slots are one range. Otherwise one range spans the shared
/// slots and one spans the lanes, and the list of slots filters both.
fn slots_query(
    session: &Session,
    sql: &Sql,
    slots: &SlotSet,
    after: Seq,
    request: &Fetch,
    limit: i64,
) -> Option<Query<'static>> {
    match slots.delivered_ranges().as_slice() {
        [] => None,
        [(first, last)] => {
            let query = session.query(&sql.fetch_slots).bind(at_once(request));
            Some(query.bind(after.0).bind(*first).bind(*last).bind(limit))
        }
        several => {
            let split = |lanes: bool| {
                let of = several.iter().filter(move |range| (range.1 >= Lane::FIRST.0) == lanes);
                let (first, last) = (of.clone().map(|range| range.0).min(), of.map(|range| range.1).max());
                // An empty range, if there are no slots of this kind.
                (first.unwrap_or(1), last.unwrap_or(0))
            };
            let (groups, lanes) = (split(false), split(true));
            let all: Vec<i16> = several.iter().flat_map(|&(first, last)| first..=last).collect();
            let query = session.query(&sql.fetch_ranges).bind(at_once(request));
            let query = query.bind(after.0).bind(groups.0).bind(groups.1).bind(lanes.0).bind(lanes.1);
            Some(query.bind(all).bind(limit))
        }
    }
}

/// The size up to which the first statement loads contents.
fn at_once(request: &Fetch) -> i32 {
    most(request.bytes.at_once(request.rows))
}

/// A number of bytes in the integer type of SQL lengths.
fn most(bytes: usize) -> i32 {
    i32::try_from(bytes).unwrap_or(i32::MAX)
}

/// What a read has found.
struct Found<'r> {
    page: Page<'r>,
    /// The database's time, if a row carried it.
    now: Option<Timestamp>,
    /// The run of the server and the file of the sequence, if rows carry them.
    mark: Option<(i64, Option<i64>)>,
}

/// Reads rows within the limits.
async fn read<'r>(
    session: &mut Session,
    sql: &Sql,
    request: &'r Fetch,
    query: Query<'_>,
) -> Result<Found<'r>, DriverError> {
    let (mut page, mut now, mut decoder) = (Page::new(request), request.now, None);
    let mut mark = None;
    let mut found = query.fetch(&mut session.connection);
    while let Some(row) = found.try_next().await? {
        let (decoder, values) = (&*decoder.get_or_insert_with(|| row::decoder(&row)), Values::new(&row));
        let told = || decoder.time(&values, Column::Now).unwrap_or_default();
        if page.rows.is_empty() && matches!(request.scope, Scope::Group { .. }) {
            mark = Some((row.try_get::<Time, _>("run")?.0.as_microsecond(), row.try_get("file")?));
        }
        if page.admit(decoder, &values, *now.get_or_insert_with(told)).is_break() {
            break;
        }
    }
    drop(found);
    // The first statement left out large contents; load them now, up to the size limit of a row.
    if !page.large.is_empty() {
        let query = session.query(&sql.fetch_large).bind(most(request.bytes.row)).bind(page.large.clone());
        let found = query.fetch_all(&mut session.connection).await?;
        let loaded = row::read_all(&found, |decoder, values| {
            read_row(decoder, values, WithClaim::No, &request.bytes).into_inner()
        });
        put_in_place(&mut page.rows, &page.large, loaded.into_iter());
    }
    Ok(Found { page, now, mark })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_has_a_number_and_a_prepared_one_stands_for_any() {
        assert_eq!(transaction("3/17"), 3 << 32 | 17);
        assert_eq!(transaction("-1/900"), PREPARED);
        assert_eq!(transaction("rubbish"), PREPARED);
    }

    #[test]
    fn only_a_horizon_without_open_transactions_vouches() {
        let horizon = |upto, open: &[u64]| Horizon { upto: Seq(upto), open: open.to_vec() };
        let cursor = |decided, waiting| Cursor { decided: Seq(decided), waiting, origin: 0 };
        assert_eq!(vouched(&cursor(5, vec![horizon(9, &[]), horizon(20, &[1])])), Some(Seq(9)));
        assert_eq!(vouched(&cursor(9, vec![horizon(9, &[])])), None);
        assert_eq!(vouched(&cursor(0, Vec::new())), None);
    }
}
