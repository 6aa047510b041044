//! Inserting items within an open transaction.

use jiff::Timestamp;
use pillarbox::model::flowcatalyst::{NewItem, number_of};
use pillarbox::model::{NewRow, Written};
use pillarbox::port::ErrorKind;
use rusqlite::{Connection, params};

use super::time::text;
use crate::error::DriverError;
use crate::insert::taken;
use crate::sql::Sql;

/// Inserts items; the caller rolls all of them back if one fails.
pub(crate) fn insert(
    connection: &Connection,
    sql: &Sql,
    rows: &[NewRow],
    now: Timestamp,
) -> Result<Vec<Written>, DriverError> {
    let items = NewItem::of_rows(rows, &sql.table)
        .map_err(|invalid| DriverError::Refused(ErrorKind::InvalidInput, invalid.to_string()))?;
    let created_at = text(now.as_microsecond());
    let mut insert = connection.prepare_cached(&sql.insert)?;
    let mut written = Vec::with_capacity(rows.len());
    for (item, row) in items.iter().zip(rows) {
        let id = row.event.id();
        insert
            .execute(params![item.id, item.item_type, item.message_group, item.payload, created_at])
            .map_err(|error| taken(error, id))?;
        written.push(Written { id: id.clone(), seq: number_of(id), fresh: true, delayed: false });
    }
    Ok(written)
}
