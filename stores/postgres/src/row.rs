//! Decodes rows of the driver: a read never fails, whatever another program has written.

use jiff::Timestamp;
use pillarbox::model::{self, Column, GLOBAL, NewColumns, Row, RowDecoder, WithClaim};
use sqlx::postgres::PgRow;
use sqlx::{Column as _, Row as _, ValueRef};

use crate::time::from_binary;

/// The size of a row's contents in bytes if some of them were left out, else NULL. The server knows lengths
/// without loading the contents.
pub(crate) const LEFT_OUT: &str = "CASE WHEN octet_length(payload) > $1 OR octet_length(payload_bytes) > $1 \
    OR octet_length(headers) > $1 THEN coalesce(octet_length(payload), 0)::bigint \
    + coalesce(octet_length(payload_bytes), 0) + coalesce(octet_length(headers), 0) END";
/// The number of bytes that a claim of the row `e` loads. One length for each column: joining the texts first takes
/// several times as long.
pub(crate) fn claim_bytes() -> String {
    let length = |name: &str| match name {
        "aggregate_type" => {
            format!("coalesce(octet_length(nullif(e.aggregate_type, '{GLOBAL}')), 0)::bigint")
        }
        name => format!("coalesce(octet_length(e.{name}), 0)::bigint"),
    };
    let names = NewColumns::text_names().chain(["payload_bytes", "last_error"]);
    format!("({})", names.map(length).collect::<Vec<_>>().join(" + "))
}
/// The columns that operators see in addition to those of a read.
pub(crate) const RECORD_COLUMNS: &str = "done_at, last_error, locked_by, locked_until, processed_by";

/// The values of one row. Each is looked up in the driver's row once, which takes longer than reading it, although a
/// decoder reads most of them several times.
pub(crate) struct Values<'r>([Option<&'r [u8]>; Column::ALL.len()]);

impl<'r> Values<'r> {
    /// The values of a statement that returns at most as many columns as there are.
    pub(crate) fn new(row: &'r PgRow) -> Self {
        debug_assert!(row.len() <= Column::ALL.len(), "the statement returns a column twice");
        Self(std::array::from_fn(|position| {
            if position >= row.len() {
                return None;
            }
            let value = row.try_get_raw(position).ok()?;
            if value.is_null() { None } else { value.as_bytes().ok() }
        }))
    }
}

impl model::Values for Values<'_> {
    fn text(&self, position: usize) -> Result<Option<&str>, &'static str> {
        self.bytes(position).map(std::str::from_utf8).transpose().map_err(|_| "is not UTF-8")
    }

    fn bytes(&self, position: usize) -> Option<&[u8]> {
        self.0.get(position).copied().flatten()
    }

    fn number(&self, position: usize) -> Result<Option<i64>, &'static str> {
        Ok(self.bytes(position).and_then(number))
    }

    fn time(&self, position: usize) -> Result<Option<Timestamp>, &'static str> {
        Ok(self.bytes(position).and_then(|bytes| from_binary(bytes).ok()))
    }
}

/// Decodes an integer of any width, or a boolean.
fn number(bytes: &[u8]) -> Option<i64> {
    Some(match bytes.len() {
        1 => i8::from_be_bytes(bytes.try_into().ok()?).into(),
        2 => i16::from_be_bytes(bytes.try_into().ok()?).into(),
        4 => i32::from_be_bytes(bytes.try_into().ok()?).into(),
        _ => i64::from_be_bytes(bytes.try_into().ok()?),
    })
}

/// A decoder for the rows of the statement that returned this row.
pub(crate) fn decoder(row: &PgRow) -> RowDecoder {
    RowDecoder::new(row.columns().iter().map(|column| column.name()))
}

/// Decodes all rows of one statement.
pub(crate) fn read_all<T>(rows: &[PgRow], read: impl Fn(&RowDecoder, &Values<'_>) -> T) -> Vec<T> {
    let Some(first) = rows.first() else { return Vec::new() };
    let decoder = decoder(first);
    rows.iter().map(|row| read(&decoder, &Values::new(row))).collect()
}

/// Decodes a claimed row. A row of more than `most` bytes comes without contents and is set aside; a statement may tell
/// the size of such rows only.
pub(crate) fn read_claimed(decoder: &RowDecoder, values: &Values<'_>, most: usize) -> Row {
    let row = decoder.row(values, WithClaim::Yes);
    match told(decoder, values) {
        Some(bytes) if bytes > most => row.set_aside(bytes, most),
        Some(bytes) => Row { bytes, ..row },
        None => row,
    }
}

/// The number of bytes that the statement counted for the row.
pub(crate) fn counted(decoder: &RowDecoder, values: &Values<'_>) -> usize {
    told(decoder, values).unwrap_or_default()
}

/// The number of bytes of the row if the statement tells it.
fn told(decoder: &RowDecoder, values: &Values<'_>) -> Option<usize> {
    decoder.number(values, Column::Bytes).and_then(|bytes| usize::try_from(bytes).ok())
}
