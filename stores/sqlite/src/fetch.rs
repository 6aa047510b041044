//! Reading pending rows in order, along a cursor.

use jiff::Timestamp;
use pillarbox::model::{Lane, Seq, Slot, SlotSet};
use pillarbox::port::{ByteLimits, Cursor, Fetch, Fetched, Scope};
use pillarbox_store_kit::{End, Page};
use rusqlite::{Connection, OptionalExtension, Statement, ToSql, params};

use crate::error::DriverError;
use crate::row::{Values, decoder};
use crate::sql::Sql;
use crate::time::{now, old_enough};

/// A set of slots as statement parameters: shared slots as a bit mask, lanes as a JSON list.
pub(crate) struct SlotParameters {
    pub(crate) mask: i64,
    pub(crate) lanes: String,
}

impl SlotParameters {
    pub(crate) fn new(slots: impl Iterator<Item = Slot>) -> Self {
        let mut held = Self { mask: 0, lanes: "[".to_owned() };
        for slot in slots {
            if slot.is_lane() {
                held.lanes.push_str(if held.lanes.len() > 1 { "," } else { "" });
                held.lanes.push_str(&slot.0.to_string());
            } else if slot >= Slot(0) {
                held.mask |= 1 << slot.0;
            }
        }
        held.lanes.push(']');
        held
    }
}

pub(crate) fn fetch(connection: &Connection, sql: &Sql, request: &Fetch) -> Result<Fetched, DriverError> {
    let now = now(request.now);
    // One row more than requested shows whether there are more.
    let limit = i64::try_from(request.rows).unwrap_or(i64::MAX).saturating_add(1);
    let (page, cursor) = match &request.scope {
        Scope::Slots { slots, cursor } => {
            let mut page = fetch_slots(connection, sql, request, slots, cursor, limit, now)?;
            let mut decided = decided(connection, sql, cursor, &page)?;
            if decided < cursor.decided {
                // Sequence numbers were reset (a restored file, or a changed sqlite_sequence), so new rows
                // lie below the cursor. Read again from the start.
                let cursor = Cursor::default();
                page = fetch_slots(connection, sql, request, slots, &cursor, limit, now)?;
                decided = self::decided(connection, sql, &cursor, &page)?;
            }
            (page, Cursor { decided, ..Cursor::default() })
        }
        Scope::Group { slot, group, from } => {
            let mut statement = connection.prepare_cached(&sql.fetch_group)?;
            let given = params![row_most(&request.bytes), from.0, slot.0, group.as_str(), limit];
            (read(&mut statement, given, request, now)?, Cursor::default())
        }
        Scope::Due => {
            let mut statement = connection.prepare_cached(&sql.fetch_due)?;
            let oldest = old_enough(now, request.skip_recent);
            let given = params![row_most(&request.bytes), now.as_microsecond(), oldest, limit];
            (read(&mut statement, given, request, now)?, Cursor::default())
        }
    };
    Ok(Fetched { rows: page.rows, cursor, more: page.end == End::Cut, now })
}

fn fetch_slots<'r>(
    connection: &Connection,
    sql: &Sql,
    request: &'r Fetch,
    slots: &SlotSet,
    cursor: &Cursor,
    limit: i64,
    now: Timestamp,
) -> Result<Page<'r>, DriverError> {
    let held = SlotParameters::new(slots.iter().filter(|slot| slot.0 != Lane::DELAYED.0));
    let mut statement = connection.prepare_cached(&sql.fetch_slots)?;
    let given = params![row_most(&request.bytes), cursor.decided.0, held.mask, held.lanes, limit];
    read(&mut statement, given, request, now)
}

fn read<'r>(
    statement: &mut Statement<'_>,
    given: &[&dyn ToSql],
    request: &'r Fetch,
    now: Timestamp,
) -> Result<Page<'r>, DriverError> {
    let (decoder, mut page) = (decoder(statement), Page::new(request));
    let mut found = statement.query(given)?;
    while let Some(row) = found.next()? {
        if page.admit(&decoder, &Values(row), now).is_break() {
            break;
        }
    }
    Ok(page)
}

/// The size limit of a single row in bytes, as a statement parameter.
pub(crate) fn row_most(limits: &ByteLimits) -> i64 {
    i64::try_from(limits.row).unwrap_or(i64::MAX)
}

/// How far the cursor may advance. Sequence numbers are drawn under the write lock, so no row can appear
/// below the last one. The result lies below the cursor if sequence numbers were reset.
fn decided(connection: &Connection, sql: &Sql, cursor: &Cursor, page: &Page<'_>) -> Result<Seq, DriverError> {
    Ok(match page.end {
        End::Nothing => Seq(last_number(connection, sql)?),
        End::Cut => page.rows.last().map_or(cursor.decided, |row| row.seq),
        End::Young(seq) => Seq(seq.0 - 1),
    })
}

/// The last sequence number that was drawn.
pub(crate) fn last_number(connection: &Connection, sql: &Sql) -> Result<i64, DriverError> {
    let last = connection.prepare_cached(&sql.sequence)?.query_row([], |row| row.get(0)).optional()?;
    Ok(last.unwrap_or(0))
}
