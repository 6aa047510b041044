//! Reading pending rows in order.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use jiff::Timestamp;
use pillarbox::model::{Malformed, Row, Seq, SlotSet};
use pillarbox::port::{ByteLimits, Cursor, Fetch, Fetched, Scope};
use sqlx::mysql::{MySql, MySqlArguments};
use sqlx::query::Query;

use crate::connection::Session;
use crate::cursor::{self, GRACE};
use crate::error::Failure;
use crate::row::{NOW, created_at, read_light, seq_of, time_of};
use crate::sql::{Sql, fill, list};
use crate::time::{now_sql, youngest_sql};

/// Why a read ended.
enum End {
    /// Nothing more was there.
    Nothing,
    /// A limit was reached, and there was more.
    Cut,
    /// The next row, with this number, is too young.
    Young(Seq),
}

/// The rows of one read.
struct Read {
    rows: Vec<Row>,
    end: End,
    now: Option<Timestamp>,
}

pub(crate) async fn fetch(session: &mut Session, sql: &Sql, request: &Fetch) -> Result<Fetched, Failure> {
    // One more than asked for tells whether there is more.
    let limit = i64::try_from(request.rows).unwrap_or(i64::MAX).saturating_add(1);
    let now = ("{now}", now_sql(request.now));
    let most = ("{most}", request.bytes.at_once(request.rows).to_string());
    match &request.scope {
        Scope::Slots { slots, cursor } => fetch_slots(session, sql, request, slots, cursor, limit).await,
        Scope::Group { slot, group, from } => {
            let query = session.query(fill(&sql.fetch_group, &[now, most]));
            let query = query.bind(from.0).bind(slot.0).bind(group.as_str().to_owned()).bind(limit);
            answer(session, sql, request, query).await
        }
        Scope::Due => {
            let youngest = ("{youngest}", youngest_sql(request.now, request.skip_recent));
            let query = session.query(fill(&sql.fetch_due, &[now, most, youngest])).bind(limit);
            answer(session, sql, request, query).await
        }
    }
}

/// A read that no cursor follows.
async fn answer(
    session: &mut Session,
    sql: &Sql,
    request: &Fetch,
    query: Query<'_, MySql, MySqlArguments>,
) -> Result<Fetched, Failure> {
    let read = read(session, sql, request, query).await?;
    let now = match read.now {
        Some(now) => now,
        None => clock(session, sql).await?,
    };
    Ok(Fetched { rows: read.rows, cursor: Cursor::default(), more: matches!(read.end, End::Cut), now })
}

/// The database's now.
pub(crate) async fn clock(session: &mut Session, sql: &Sql) -> Result<Timestamp, Failure> {
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
) -> Result<Fetched, Failure> {
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
        if cursor::went_back(session, sql, &cursor, &peek).await? {
            cursor = Cursor { origin: cursor.origin, ..Cursor::default() };
            continue;
        }
        let query = session.query(&*text).bind(cursor.decided.0).bind(limit);
        let read = read(session, sql, request, query).await?;
        let wanted = match &read.end {
            End::Nothing => peek.upto(),
            End::Cut => read.rows.last().map_or(cursor.decided, |row| row.seq),
            End::Young(seq) => Seq(seq.0 - 1),
        };
        let seen: BTreeSet<i64> = read.rows.iter().map(|row| row.seq.0).collect();
        let from = cursor.decided;
        let short = peek.advance(&mut cursor, &seen, wanted);
        // With more to read there is nothing to gain from reading the same again.
        if short && std::mem::take(&mut patient) && matches!(read.end, End::Cut) {
            // What was read now is not answered: it has to be read again.
            cursor.decided = from;
            tokio::time::sleep(GRACE + Duration::from_millis(1)).await;
            continue;
        }
        let now = match read.now {
            Some(now) => now,
            None => clock(session, sql).await?,
        };
        if let End::Cut = read.end {
            session.committed.note_page(from, wanted);
        }
        return Ok(Fetched { rows: read.rows, cursor, more: matches!(read.end, End::Cut), now });
    }
}

/// A page out of the middle of a backlog: all numbers up to its end are committed. None where it can't be told, or where a
/// page is not full.
async fn fetch_committed(
    session: &mut Session,
    sql: &Sql,
    request: &Fetch,
    text: &str,
    cursor: &Cursor,
    limit: i64,
) -> Result<Option<Fetched>, Failure> {
    // Before the rows are read: what is committed by then, the read sees.
    let committed = cursor::committed(session, sql, cursor.decided).await?;
    if let Some(upto) = committed {
        let query = session.query(text).bind(cursor.decided.0).bind(limit);
        let read = read(session, sql, request, query).await?;
        if let (End::Cut, Some(now), Some(row)) = (&read.end, read.now, read.rows.last())
            && row.seq <= upto
        {
            let (last, mut cursor) = (row.seq, cursor.clone());
            session.committed.note_page(cursor.decided, last);
            cursor::pass(&mut cursor, last);
            return Ok(Some(Fetched { rows: read.rows, cursor, more: true, now }));
        }
    }
    session.committed.forget_page();
    Ok(None)
}

/// The condition on slots. Ranges are numbers of ours; the delayed and the queue are never among them.
pub(crate) fn slots_sql(slots: &SlotSet) -> String {
    let ranges: Vec<String> = slots
        .ranges()
        .iter()
        .map(|&(first, last)| (first.max(0), last))
        .filter(|(first, last)| first <= last)
        .map(|(first, last)| format!("slot BETWEEN {first} AND {last}"))
        .collect();
    if ranges.is_empty() { "FALSE".to_owned() } else { ranges.join(" OR ") }
}

async fn read(
    session: &mut Session,
    sql: &Sql,
    request: &Fetch,
    query: Query<'_, MySql, MySqlArguments>,
) -> Result<Read, Failure> {
    let (mut read, large) = read_light_rows(session, request, query).await?;
    if !large.is_empty() {
        load(session, sql, request, &large, &mut read.rows).await?;
    }
    Ok(read)
}

/// Reads rows until a limit is reached, and the numbers of those whose contents have still to be loaded.
async fn read_light_rows(
    session: &mut Session,
    request: &Fetch,
    query: Query<'_, MySql, MySqlArguments>,
) -> Result<(Read, Vec<i64>), Failure> {
    use futures_util::TryStreamExt;

    let mut found = query.fetch(&mut session.connection);
    let mut read =
        Read { rows: Vec::with_capacity(request.rows.min(1_024)), end: End::Nothing, now: request.now };
    let (mut bytes, mut large) = (0_usize, Vec::new());
    while let Some(row) = found.try_next().await? {
        let now = match read.now {
            Some(now) => now,
            None => *read.now.insert(time_of(&row, NOW).unwrap_or_default()),
        };
        let youngest = now.saturating_sub(request.skip_recent).unwrap_or(Timestamp::MIN);
        if !request.skip_recent.is_zero() && created_at(&row) > youngest {
            read.end = End::Young(seq_of(&row));
            break;
        }
        if read.rows.len() >= request.rows || (request.bytes.reached_by(bytes) && !read.rows.is_empty()) {
            read.end = End::Cut;
            break;
        }
        let row = match read_light(&row) {
            (row, None) => row,
            (row, Some(size)) if size > request.bytes.row => set_aside(row, size, &request.bytes),
            (row, Some(size)) => {
                large.push(row.seq.0);
                Row { bytes: size, ..row }
            }
        };
        bytes = bytes.saturating_add(row.bytes);
        read.rows.push(row);
    }
    Ok((read, large))
}

/// Loads rows whose contents were left out; what is not pending any more is no row.
async fn load(
    session: &mut Session,
    sql: &Sql,
    request: &Fetch,
    seqs: &[i64],
    rows: &mut Vec<Row>,
) -> Result<(), Failure> {
    let parts =
        [("{now}", now_sql(request.now)), ("{most}", request.bytes.row.to_string()), ("{seqs}", list(seqs))];
    let query = session.once(fill(&sql.fetch_large, &parts));
    let found = query.fetch_all(&mut session.connection).await?;
    put_in_place(rows, seqs, found.iter().map(read_light), &request.bytes);
    Ok(())
}

/// Puts rows in the place of those whose contents were left out. Those that are not among them are no rows.
pub(crate) fn put_in_place(
    rows: &mut Vec<Row>,
    seqs: &[i64],
    loaded: impl Iterator<Item = (Row, Option<usize>)>,
    limits: &ByteLimits,
) {
    let whole = |(row, left_out): (Row, Option<usize>)| match left_out {
        None => (row.seq.0, row),
        Some(size) => (row.seq.0, set_aside(row, size, limits)),
    };
    let mut loaded: HashMap<i64, Row> = loaded.map(whole).collect();
    let large: HashSet<i64> = seqs.iter().copied().collect();
    rows.retain_mut(|row| match large.contains(&row.seq.0) {
        true => loaded.remove(&row.seq.0).map(|whole| *row = whole).is_some(),
        false => true,
    });
}

/// A row that has more bytes than a row may have, without its contents.
pub(crate) fn set_aside(row: Row, size: usize, limits: &ByteLimits) -> Row {
    Row { bytes: 0, event: Err(Malformed::too_large(size, limits.row)), ..row }
}
