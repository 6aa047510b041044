//! Writes with any driver: one statement with one parameter, both of them text.

use std::fmt::Write as _;

use jiff::Timestamp;
use jiff::tz::Offset;
use pillarbox::model::NewRow;
use pillarbox::port::{ErrorKind, Insert, StoreError, WriteSql};
use serde::{Serialize, Serializer};

use crate::insert::Values;
use crate::kind::Kind;
use crate::store::PostgresTable;
use crate::time::from_first;

/// The parameter is a JSON array with one object per row. The statement is therefore the same for any number
/// of rows, and `$1` is text for every driver. Rows get their sequence numbers in the order of the array.
///
/// ```no_run
/// # use pillarbox::{Event, Outbox};
/// # use pillarbox_postgres::PostgresStore;
/// # struct Driver;
/// # impl Driver { fn execute(&mut self, _: &str, _: &[String]) -> Result<(), std::fmt::Error> { Ok(()) } }
/// # fn run(driver: &mut Driver, outbox: Outbox<PostgresStore>) -> Result<(), Box<dyn std::error::Error>> {
/// driver.execute("BEGIN", &[])?;
/// let (insert, receipt) = outbox.insert_sql([Event::text("OrderPlaced", "{}")])?;
/// if let Some(insert) = insert {
///     driver.execute(&insert.sql, &insert.params)?;
/// }
/// driver.execute("COMMIT", &[])?;
/// receipt.committed();
/// # Ok(())
/// # }
/// ```
impl<K: Kind> WriteSql for PostgresTable<K> {
    fn insert_sql(&self, rows: &[NewRow]) -> Result<Insert, StoreError> {
        K::admit(self, rows)?;
        let values: Vec<Values<'_>> = rows.iter().map(Values::new).collect();
        let rows: Vec<Columns<'_>> = values.iter().map(Columns::new).collect();
        let param = serde_json::to_string(&rows).map_err(|_| {
            StoreError::new(ErrorKind::InvalidInput, "write", self.name(), "the rows can't be put into JSON")
        })?;
        Ok(Insert::new(&**self.shared().sql.insert_json.of(&values), vec![param]))
    }
}

/// One row under the column names of the statement `insert_json`; a missing field is NULL.
#[derive(Serialize)]
struct Columns<'a> {
    event_id: &'a str,
    event_type: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    aggregate_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    aggregate_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lane: Option<i16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message_group: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    correlation_id: Option<&'a str>,
    occurred_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    due_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    due_in: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_in: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    headers: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "hex")]
    payload_bytes: Option<&'a [u8]>,
}

impl<'a> Columns<'a> {
    fn new(row: &'a Values<'a>) -> Self {
        Self {
            event_id: row.event_id,
            event_type: row.event_type,
            aggregate_type: row.aggregate_type,
            aggregate_id: row.aggregate_id,
            tenant_id: row.tenant_id,
            lane: row.lane,
            message_group: row.message_group,
            message_id: row.message_id,
            correlation_id: row.correlation_id,
            occurred_at: time(row.occurred_at),
            due_at: row.due.at.map(time),
            due_in: row.due.in_us,
            expires_at: row.expires.at.map(time),
            expires_in: row.expires.in_us,
            headers: row.headers.as_deref(),
            payload: row.payload,
            payload_bytes: row.payload_bytes,
        }
    }
}

/// Formats a time so that the server reads it the same under every setting, with BC for years before year 1.
fn time(at: Timestamp) -> String {
    let at = Offset::UTC.to_datetime(from_first(at));
    let (year, era) = if at.year() > 0 { (at.year(), "") } else { (1 - at.year(), " BC") };
    let micros = at.subsec_nanosecond() / 1_000;
    let (date, clock) = (at.date(), at.time());
    format!(
        "{year:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{micros:06}Z{era}",
        date.month(),
        date.day(),
        clock.hour(),
        clock.minute(),
        clock.second()
    )
}

fn hex<S: Serializer>(bytes: &Option<&[u8]>, serializer: S) -> Result<S::Ok, S::Error> {
    let bytes = bytes.unwrap_or_default();
    let mut text = String::with_capacity(2 + 2 * bytes.len());
    text.push_str("\\x");
    for byte in bytes {
        // Writing to a string can't fail.
        let _ = write!(text, "{byte:02x}");
    }
    serializer.serialize_str(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_whole_microseconds_of_any_era() {
        for (at, text) in [
            ("2026-01-02T03:04:05.123456789Z", "2026-01-02T03:04:05.123456Z"),
            ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000000Z"),
            ("-000043-03-15T12:00:00Z", "0044-03-15T12:00:00.000000Z BC"),
        ] {
            assert_eq!(time(at.parse().unwrap()), text);
        }
        assert_eq!(time(Timestamp::MIN), "4714-11-24T00:00:00.000000Z BC");
    }
}
