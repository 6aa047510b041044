//! Reading pending rows in order.

use jiff::Timestamp;
use pillarbox::model::{Lane, Row, Seq, Slot, SlotSet};
use pillarbox::port::{ByteLimits, Cursor, Fetch, Fetched, Scope};
use rusqlite::{Connection, OptionalExtension, Rows, params};

use crate::error::Failure;
use crate::row::{Claimed, created_us, read_within};
use crate::sql::Sql;
use crate::time::old_enough;

/// Why a read ended.
enum End {
    /// Nothing more was there.
    Nothing,
    /// A limit was reached, and there was more.
    Cut,
    /// The next row, with this number, is too young.
    Young(i64),
}

/// A set of slots as a statement takes it: groups' slots as bits, lanes as a JSON list.
pub(crate) struct Held {
    pub(crate) mask: i64,
    pub(crate) lanes: String,
}

impl Held {
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

pub(crate) fn fetch(
    connection: &Connection,
    sql: &Sql,
    request: &Fetch,
    now: Timestamp,
) -> Result<Fetched, Failure> {
    // One more than asked for tells whether there is more.
    let limit = i64::try_from(request.rows).unwrap_or(i64::MAX).saturating_add(1);
    let (rows, cursor, end) = match &request.scope {
        Scope::Slots { slots, cursor } => {
            let (mut rows, mut end) = fetch_slots(connection, sql, request, slots, cursor, limit, now)?;
            let mut decided = decided(connection, sql, cursor, &rows, &end)?;
            if decided < cursor.decided {
                // Numbers went back (a restore, a sequence that was set): what is given again lies below the cursor.
                let cursor = Cursor::default();
                (rows, end) = fetch_slots(connection, sql, request, slots, &cursor, limit, now)?;
                decided = self::decided(connection, sql, &cursor, &rows, &end)?;
            }
            (rows, Cursor { decided, ..Cursor::default() }, end)
        }
        Scope::Group { slot, group, from } => {
            let mut statement = connection.prepare_cached(&sql.fetch_group)?;
            let found =
                statement.query(params![row_most(&request.bytes), from.0, slot.0, group.as_str(), limit])?;
            let (rows, end) = read(found, request, now)?;
            (rows, Cursor::default(), end)
        }
        Scope::Due => {
            let mut statement = connection.prepare_cached(&sql.fetch_due)?;
            let oldest = old_enough(now, request.skip_recent);
            let found =
                statement.query(params![row_most(&request.bytes), now.as_microsecond(), oldest, limit])?;
            let (rows, end) = read(found, request, now)?;
            (rows, Cursor::default(), end)
        }
    };
    Ok(Fetched { rows, cursor, more: matches!(end, End::Cut), now })
}

fn fetch_slots(
    connection: &Connection,
    sql: &Sql,
    request: &Fetch,
    slots: &SlotSet,
    cursor: &Cursor,
    limit: i64,
    now: Timestamp,
) -> Result<(Vec<Row>, End), Failure> {
    let held = Held::new(slots.iter().filter(|slot| slot.0 != Lane::DELAYED.0));
    let mut statement = connection.prepare_cached(&sql.fetch_slots)?;
    let found =
        statement.query(params![row_most(&request.bytes), cursor.decided.0, held.mask, held.lanes, limit])?;
    read(found, request, now)
}

fn read(mut found: Rows<'_>, request: &Fetch, now: Timestamp) -> Result<(Vec<Row>, End), Failure> {
    let youngest = old_enough(now, request.skip_recent);
    let (mut rows, mut bytes) = (Vec::with_capacity(request.rows.min(1_024)), 0_usize);
    while let Some(row) = found.next()? {
        if !request.skip_recent.is_zero() && created_us(row) > youngest {
            return Ok((rows, End::Young(row.get(0)?)));
        }
        if rows.len() >= request.rows || (request.bytes.reached_by(bytes) && !rows.is_empty()) {
            return Ok((rows, End::Cut));
        }
        let row = read_within(row, Claimed::No, &request.bytes);
        bytes = bytes.saturating_add(row.bytes);
        rows.push(row);
    }
    Ok((rows, End::Nothing))
}

/// The most bytes of a row, as statements compare them with lengths.
pub(crate) fn row_most(limits: &ByteLimits) -> i64 {
    i64::try_from(limits.row).unwrap_or(i64::MAX)
}

/// How far the next read may start: numbers are drawn under the write lock, so none appears below the last one. Behind
/// the cursor where numbers went back.
fn decided(
    connection: &Connection,
    sql: &Sql,
    cursor: &Cursor,
    rows: &[Row],
    end: &End,
) -> Result<Seq, Failure> {
    let seen = match end {
        End::Nothing => last_number(connection, sql)?,
        End::Cut => rows.last().map_or(cursor.decided.0, |row| row.seq.0),
        End::Young(seq) => seq - 1,
    };
    Ok(Seq(seen))
}

/// The last number that was drawn.
pub(crate) fn last_number(connection: &Connection, sql: &Sql) -> Result<i64, Failure> {
    let last = connection.prepare_cached(&sql.sequence)?.query_row([], |row| row.get(0)).optional()?;
    Ok(last.unwrap_or(0))
}
