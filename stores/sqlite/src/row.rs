//! Decoding of columns: a read never fails because of a value that somebody wrote.

use std::fmt::Write;

use jiff::Timestamp;
use pillarbox::model::{self, RowDecoder};
use rusqlite::types::ValueRef;

use crate::time::timestamp;

/// The size of all contents in bytes if some of them were left out as too large, else NULL.
pub(crate) const LEFT_OUT: &str = "CASE WHEN octet_length(payload) > ?1 OR octet_length(headers) > ?1 \
    OR octet_length(payload_bytes) > ?1 OR octet_length(last_error) > ?1 THEN {size} END AS left_out";
/// The extra columns that people see.
pub(crate) const RECORD_COLUMNS: &str = "done_at, locked_by, locked_until, processed_by";

/// The SQL expression for an id that is not text, in the form that [`Values`] shows and outcomes use.
pub(crate) const ID_IN_HEX: &str = "('x''' || hex(event_id) || '''')";

/// The values of one row.
pub(crate) struct Values<'r>(pub(crate) &'r rusqlite::Row<'r>);

impl Values<'_> {
    pub(crate) fn value(&self, position: usize) -> ValueRef<'_> {
        self.0.get_ref(position).unwrap_or(ValueRef::Null)
    }
}

impl model::Values for Values<'_> {
    fn text(&self, position: usize) -> Result<Option<&str>, &'static str> {
        match self.value(position) {
            ValueRef::Null => Ok(None),
            ValueRef::Text(bytes) => std::str::from_utf8(bytes).map(Some).map_err(|_| "is not UTF-8"),
            _ => Err("is not text"),
        }
    }

    fn bytes(&self, position: usize) -> Option<&[u8]> {
        self.value(position).as_bytes().ok()
    }

    fn number(&self, position: usize) -> Result<Option<i64>, &'static str> {
        match self.value(position) {
            ValueRef::Null => Ok(None),
            ValueRef::Integer(number) => Ok(Some(number)),
            // Writers that compute times in floating point store such values.
            ValueRef::Real(number) => Ok(Some(number as i64)),
            _ => Err("is not a number"),
        }
    }

    fn time(&self, position: usize) -> Result<Option<Timestamp>, &'static str> {
        Ok(self.number(position)?.map(timestamp))
    }

    fn is_binary(&self, position: usize) -> bool {
        matches!(self.value(position), ValueRef::Blob(_))
    }

    fn unreadable_id(&self, position: usize) -> String {
        let mut shown = "x'".to_owned();
        for byte in self.bytes(position).unwrap_or_default() {
            let _ = write!(shown, "{byte:02X}");
        }
        shown.push('\'');
        shown
    }
}

/// The decoder for rows of a statement.
pub(crate) fn decoder(statement: &rusqlite::Statement<'_>) -> RowDecoder {
    RowDecoder::new(statement.column_names())
}

/// A column as text, with invalid UTF-8 replaced; empty if it is neither text nor a blob.
pub(crate) fn lossy_text(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<String> {
    let value = row.get_ref(column)?;
    Ok(value.as_bytes().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).unwrap_or_default())
}
