//! Decoding of columns: a read never fails because of a value that somebody wrote.

use jiff::Timestamp;
use pillarbox::model::{self, Column, RowDecoder};
use sqlx::mysql::{MySql, MySqlRow};
use sqlx::{Column as _, Decode, Row as _, ValueRef};

use crate::time::{from_binary, from_text};

/// The size of all contents in bytes if some of them were left out as too large, else NULL.
pub(crate) const LEFT_OUT: &str = "CASE WHEN length(payload) > {most} OR length(payload_bytes) > {most} OR length(headers) > {most} \
    THEN coalesce(length(payload), 0) + coalesce(length(payload_bytes), 0) + coalesce(length(headers), 0) END AS left_out";
/// The extra columns of a claim: the last error, the size of contents and error in bytes if some were left
/// out, and whether the previous claim expired.
pub(crate) const CLAIM_TAIL: &str = "CASE WHEN length(last_error) <= {most} THEN last_error END AS last_error, \
    CASE WHEN length(payload) > {most} OR length(payload_bytes) > {most} OR length(headers) > {most} OR length(last_error) > {most} \
    THEN coalesce(length(payload), 0) + coalesce(length(payload_bytes), 0) + coalesce(length(headers), 0) \
    + coalesce(length(last_error), 0) END AS left_out, locked_at IS NOT NULL AS lapsed";
/// The extra columns that people see.
pub(crate) const RECORD_COLUMNS: &str = "done_at, last_error, locked_by, locked_until, processed_by";

/// The values of one row of a prepared statement.
pub(crate) struct Values<'r>(pub(crate) &'r MySqlRow);

impl model::Values for Values<'_> {
    fn text(&self, position: usize) -> Result<Option<&str>, &'static str> {
        self.bytes(position).map(std::str::from_utf8).transpose().map_err(|_| "is not UTF-8")
    }

    fn bytes(&self, position: usize) -> Option<&[u8]> {
        bytes_of(self.0, position)
    }

    fn number(&self, position: usize) -> Result<Option<i64>, &'static str> {
        Ok(number_of(self.0, position))
    }

    fn time(&self, position: usize) -> Result<Option<Timestamp>, &'static str> {
        Ok(time_of(self.0, position))
    }
}

/// The values of one row of the text protocol.
pub(crate) struct TextValues<'r>(pub(crate) &'r MySqlRow);

impl model::Values for TextValues<'_> {
    fn text(&self, position: usize) -> Result<Option<&str>, &'static str> {
        self.bytes(position).map(std::str::from_utf8).transpose().map_err(|_| "is not UTF-8")
    }

    fn bytes(&self, position: usize) -> Option<&[u8]> {
        bytes_of(self.0, position)
    }

    fn number(&self, position: usize) -> Result<Option<i64>, &'static str> {
        self.text(position)?.map(str::parse).transpose().map_err(|_| "is not a number")
    }

    fn time(&self, position: usize) -> Result<Option<Timestamp>, &'static str> {
        Ok(self.text(position)?.and_then(from_text))
    }
}

/// The decoder for rows with the columns of this one.
pub(crate) fn decoder(row: &MySqlRow) -> RowDecoder {
    RowDecoder::new(row.columns().iter().map(|column| column.name()))
}

/// Decodes the rows of one statement.
pub(crate) fn read_all<T>(rows: &[MySqlRow], read: impl Fn(&RowDecoder, &Values<'_>) -> T) -> Vec<T> {
    let Some(first) = rows.first() else { return Vec::new() };
    let decoder = decoder(first);
    rows.iter().map(|row| read(&decoder, &Values(row))).collect()
}

/// The database's time, from the first row.
pub(crate) fn told_now(rows: &[MySqlRow]) -> Option<Timestamp> {
    let first = rows.first()?;
    decoder(first).time(&Values(first), Column::Now)
}

/// The bytes of a column; none if it is NULL.
pub(crate) fn bytes_of(row: &MySqlRow, column: usize) -> Option<&[u8]> {
    let value = row.try_get_raw(column).ok()?;
    if value.is_null() { None } else { <&[u8] as Decode<MySql>>::decode(value).ok() }
}

/// A text; none if the column is NULL or not UTF-8. It is read as bytes, because the driver treats text
/// columns with a binary collation as binary.
pub(crate) fn text_of(row: &MySqlRow, column: usize) -> Option<&str> {
    std::str::from_utf8(bytes_of(row, column)?).ok()
}

/// An integer of any width, from a prepared statement.
pub(crate) fn number_of(row: &MySqlRow, column: usize) -> Option<i64> {
    let bytes = bytes_of(row, column)?;
    Some(match bytes.len() {
        1 => i8::from_le_bytes(bytes.try_into().ok()?).into(),
        2 => i16::from_le_bytes(bytes.try_into().ok()?).into(),
        4 => i32::from_le_bytes(bytes.try_into().ok()?).into(),
        _ => i64::from_le_bytes(bytes.try_into().ok()?),
    })
}

/// A time from a prepared statement.
pub(crate) fn time_of(row: &MySqlRow, column: usize) -> Option<Timestamp> {
    from_binary(bytes_of(row, column)?)
}

/// A number of the text protocol; zero if there is none.
pub(crate) fn text_number(row: &MySqlRow, column: usize) -> i64 {
    text_of(row, column).and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// A time of the text protocol.
pub(crate) fn text_time(row: &MySqlRow, column: usize) -> Option<Timestamp> {
    from_text(text_of(row, column)?)
}
