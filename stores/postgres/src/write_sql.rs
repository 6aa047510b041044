//! Writes with any driver: one statement with one parameter, both of them text.

use std::fmt::Write as _;

use jiff::Timestamp;
use jiff::tz::Offset;
use pillarbox::model::{NewColumns, NewRow, When};
use pillarbox::port::{Insert, StoreError, WriteSql};
use serde_json::{Map, Value};

use crate::insert::moment;
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
        let values = NewColumns::of_all(rows);
        let param = Value::from(values.iter().map(object).collect::<Vec<_>>()).to_string();
        Ok(Insert::new(&**self.shared().sql.insert_json.of(&values), vec![param]))
    }
}

/// One row under the column names of the statement `insert_json`; a missing field is NULL.
fn object(row: &NewColumns<'_>) -> Map<String, Value> {
    let at = |when: Option<When>| match when {
        Some(When::At(at)) => Some(time(at).into()),
        _ => None,
    };
    let others: [(&str, Option<Value>); 7] = [
        ("lane", row.lane.map(|lane| lane.0.into())),
        ("occurred_at", Some(time(row.occurred_at).into())),
        ("due_at", at(row.due)),
        ("due_in", moment(row.due).1.map(Value::from)),
        ("expires_at", at(row.expires)),
        ("expires_in", moment(row.expires).1.map(Value::from)),
        ("payload_bytes", row.payload_bytes.map(|bytes| hex(bytes).into())),
    ];
    let texts =
        NewColumns::text_names().zip(&row.texts).map(|(name, text)| (name, text.as_deref().map(Value::from)));
    texts.chain(others).filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
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

/// Bytes as the server reads them from text.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold("\\x".to_owned(), |mut text, byte| {
        // Writing to a string can't fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
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
