//! Giving rows new sequence numbers at the end of the order.

use pillarbox::model::EventId;
use sqlx::mysql::MySqlRow;

use crate::connection::{Session, number};
use crate::error::DriverError;
use crate::insert::{located, numbers};
use crate::row::{number_of, text_of};
use crate::sql::{Sql, fill, list};

/// A row that is to move, locked by the transaction.
pub(crate) struct Moving {
    pub(crate) seq: i64,
    pub(crate) event_id: String,
    /// The target lane; none for the slot of its group or id.
    pub(crate) lane: Option<i64>,
    grouped: bool,
}

impl Moving {
    /// Decodes a row of sequence number, id, lane, and whether the row has a group.
    pub(crate) fn read(row: &MySqlRow) -> Result<Self, DriverError> {
        Ok(Self {
            seq: number(row, 0)?,
            event_id: text_of(row, 1).unwrap_or_default().to_owned(),
            lane: number_of(row, 2),
            grouped: number(row, 3)? != 0,
        })
    }

    pub(crate) fn is_grouped(&self) -> bool {
        self.grouped
    }
}

/// The lane of placeholder rows. No node has this lane, and a placeholder is never committed. A peek sees
/// placeholders, so cursors do not pass their numbers.
const HOLDING: i16 = i16::MAX;

/// Moves the rows that can be moved without waiting for locks, in the given order. Returns how many it moved.
///
/// MariaDB compares a moved row with its neighbours in the index of ids, and fails if another transaction has locked
/// the next one. Halves are then tried, so that a lock keeps back only the row before it.
pub(crate) async fn renumber_free(
    session: &mut Session,
    sql: &Sql,
    rows: &[Moving],
) -> Result<usize, DriverError> {
    if !session.server.maria || rows.is_empty() {
        renumber(session, sql, rows).await?;
        return Ok(rows.len());
    }
    // Only this waits, for another renumbering. Every part would wait again for a lock that it can't get.
    session.query(&*sql.renumber_begin).execute(&mut session.connection).await?;
    let (mut parts, mut moved) = (vec![rows], 0);
    while let Some(part) = parts.pop() {
        let impatient = ("{impatient}", session.server.impatience().to_string());
        session.results(fill(&sql.renumber_save, &[impatient])).await?;
        match renumber(session, sql, part).await {
            Ok(()) => moved += part.len(),
            Err(error) if error.is_lock_wait() => {
                let patient = ("{patient}", session.server.patience_s.to_string());
                session.results(fill(&sql.renumber_undo, &[patient])).await?;
                if part.len() > 1 {
                    let (first, second) = part.split_at(part.len() / 2);
                    parts.extend([second, first]);
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(moved)
}

/// Moves rows to new sequence numbers, in the given order.
///
/// Only an insert draws numbers. So placeholder rows are inserted first, and then replaced by the moved rows.
/// Between the two statements no row has these numbers, for as long as the server may wait for a lock. The
/// mark that `renumber_begin` sets makes readers use a longer grace period.
pub(crate) async fn renumber(session: &mut Session, sql: &Sql, rows: &[Moving]) -> Result<(), DriverError> {
    if rows.is_empty() {
        return Ok(());
    }
    session.query(&*sql.renumber_begin).execute(&mut session.connection).await?;
    let holders = vec![format!("(?, '', {HOLDING})"); rows.len()].join(", ");
    let draw = session.once(fill(&sql.draw, &[("{rows}", holders)]));
    // These ids come after all others: under REPEATABLE READ a lock on a row also covers the gap before it, and an
    // insert into that gap would wait.
    let ids: Vec<String> = rows.iter().map(|_| format!("~{}", EventId::uuid_v7())).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let draw = ids.iter().fold(draw, |query, id| query.bind((*id).to_owned()));
    let first =
        i64::try_from(draw.execute(&mut session.connection).await?.last_insert_id()).unwrap_or_default();
    let numbers = match numbers(&mut session.connection, sql, first, &ids).await? {
        Some(numbers) => numbers,
        None => located(&mut session.connection, sql, &ids).await?.iter().map(|row| row.seq.0).collect(),
    };
    let lane = |row: &Moving| row.lane.map_or("NULL".to_owned(), |lane| lane.to_string());
    let lanes: Vec<String> = rows.iter().map(|row| format!("WHEN {} THEN {}", row.seq, lane(row))).collect();
    let moves = rows.iter().zip(&numbers).map(|(row, to)| format!("WHEN {} THEN {to}", row.seq));
    let parts = [
        ("{impatient}", session.server.impatience().to_string()),
        ("{patient}", session.server.patience_s.to_string()),
        ("{drawn}", list(&numbers)),
        ("{lanes}", lanes.join(" ")),
        ("{numbers}", moves.collect::<Vec<_>>().join(" ")),
        ("{seqs}", list(rows.iter().map(|row| row.seq))),
    ];
    session.results(fill(&sql.renumber, &parts)).await?;
    Ok(())
}
