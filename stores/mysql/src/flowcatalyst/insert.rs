//! Inserting items within an open transaction.

use jiff::Timestamp;
use pillarbox::model::flowcatalyst::{NewItem, number_of};
use pillarbox::model::{NewRow, Written};
use pillarbox::port::{ErrorKind, Insert};
use sqlx::mysql::MySqlConnection;

use super::row::whole;
use crate::connection::once;
use crate::error::DriverError;
use crate::sql::{Sql, fill};
use crate::time::literal;

/// Inserts all items or none, with one statement.
pub(crate) async fn insert(
    connection: &mut MySqlConnection,
    sql: &Sql,
    rows: &[NewRow],
    now: Option<Timestamp>,
) -> Result<Vec<Written>, DriverError> {
    let insert = insert_sql(sql, rows, now)?;
    let query = insert.params.into_iter().fold(once(insert.sql), |query, param| query.bind(param));
    query.execute(connection).await?;
    let written = |row: &NewRow| {
        let id = row.event.id().clone();
        Written { seq: number_of(&id), id, fresh: true, delayed: false }
    };
    Ok(rows.iter().map(written).collect())
}

/// The statement that inserts the items, for any driver.
pub(crate) fn insert_sql(sql: &Sql, rows: &[NewRow], now: Option<Timestamp>) -> Result<Insert, DriverError> {
    let items = NewItem::of_rows(rows, &sql.table)
        .map_err(|invalid| DriverError::Refused(ErrorKind::InvalidInput, invalid.to_string()))?;
    // `now()` is in the session's time zone, and the TIMESTAMP column converts it to the right instant.
    let now = now.map_or_else(|| "now()".to_owned(), |now| literal(whole(now)));
    let (mut values, mut params) = (Vec::new(), Vec::new());
    for item in &items {
        let group = item.message_group.as_deref();
        let place = if group.is_some() { "?" } else { "NULL" };
        values.push(format!("(?, ?, {place}, ?, 'PENDING', 0, {now}, NULL)"));
        params.extend([item.id, item.item_type].map(str::to_owned));
        params.extend(group.map(str::to_owned));
        params.push(item.payload.to_owned());
    }
    Ok(Insert::new(fill(&sql.insert, &[("{rows}", values.join(", "))]), params))
}
