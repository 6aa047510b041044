//! Writing with any driver: one insert statement, and its parameters as text.

use std::fmt::Write as _;

use pillarbox::model::{NewColumns, NewRow, When};
use pillarbox::port::{Insert, StoreError, WriteSql};
use pillarbox_store_kit::ServerFailure as _;

use crate::insert::expression;
use crate::kind::Kind;
use crate::sql::{Sql, fill};
use crate::store::MysqlTable;
use crate::time::{micros, now_sql, text};

/// Ignores a row whose message id exists already. On any other duplicate key the subquery returns two rows
/// where only one is allowed, which is an error under every session setting.
const ONCE: &str = " ON DUPLICATE KEY UPDATE event_id = CASE WHEN message_id = VALUES(message_id) THEN event_id \
    ELSE (SELECT 'an event with this id' UNION ALL SELECT 'already exists') END";

/// All parameters are text, which every driver can bind; missing values are NULL in the statement itself. The
/// rows get their sequence numbers in the given order.
///
/// A row whose message id exists already is not added. An event id that exists already is an error, which the
/// driver reports.
///
/// ```no_run
/// # use pillarbox::{Event, Outbox};
/// # use pillarbox_mysql::MysqlStore;
/// # struct Driver;
/// # impl Driver { fn execute(&mut self, _: &str, _: &[String]) -> Result<(), std::fmt::Error> { Ok(()) } }
/// # fn run(driver: &mut Driver, outbox: Outbox<MysqlStore>) -> Result<(), Box<dyn std::error::Error>> {
/// driver.execute("START TRANSACTION", &[])?;
/// let (insert, receipt) = outbox.insert_sql([Event::text("OrderPlaced", "{}")])?;
/// if let Some(insert) = insert {
///     driver.execute(&insert.sql, &insert.params)?;
/// }
/// driver.execute("COMMIT", &[])?;
/// receipt.committed();
/// # Ok(())
/// # }
/// ```
impl<K: Kind> WriteSql for MysqlTable<K> {
    fn insert_sql(&self, rows: &[NewRow]) -> Result<Insert, StoreError> {
        K::insert_sql(self.0.statements.likely(), rows)
            .map_err(|failure| failure.into_store_error("write", self.0.name()))
    }
}

/// The statement that inserts rows into the native table.
pub(crate) fn insert_sql(sql: &Sql, rows: &[NewRow]) -> Insert {
    let now = now_sql(None);
    let (mut expressions, mut params) = (Vec::new(), Vec::new());
    for row in rows {
        let values = NewColumns::new(row);
        expressions.push(written_out(&values, &now));
        add_params(&values, &mut params);
    }
    let mut text = fill(&sql.insert, &[("{rows}", expressions.join(", "))]);
    if rows.iter().any(|row| row.event.message_id().is_some()) {
        text.push_str(ONCE);
    }
    Insert::new(text, params)
}

/// The row's expression with its bytes as hex digits, because parameters are text.
fn written_out(values: &NewColumns<'_>, now: &str) -> String {
    let expression = expression(values, now, "NULL");
    match values.payload_bytes {
        // The last placeholder of the row is that of the bytes.
        Some(_) => format!("{}unhex(?))", expression.trim_end_matches("?)")),
        None => expression,
    }
}

fn add_params(row: &NewColumns<'_>, params: &mut Vec<String>) {
    params.extend(row.texts.iter().flatten().map(|text| text.clone().into_owned()));
    params.push(text(row.occurred_at));
    params.extend([row.due, row.expires].into_iter().flatten().map(|when| match when {
        When::At(at) => text(at),
        When::In(after) => micros(after).to_string(),
    }));
    params.extend(row.lane.map(|lane| lane.0.to_string()));
    params.extend(row.payload_bytes.map(hex));
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
