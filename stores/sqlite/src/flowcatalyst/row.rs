//! Items as SQLite gives them: whatever someone else wrote, a read never fails on it.

use jiff::Timestamp;
use pillarbox::model;

use super::time::stored;
use crate::row::Values;
use crate::time::timestamp;

/// How many bytes the contents have of which some were left out; NULL where none were.
pub(crate) const LEFT_OUT: &str = "CASE WHEN octet_length(payload) > ?1 OR octet_length(error_message) > ?1 \
    THEN ifnull(octet_length(payload), 0) + ifnull(octet_length(error_message), 0) END AS left_out";

/// The values of one item: its times are texts.
pub(crate) struct ItemValues<'r>(pub(crate) Values<'r>);

impl model::Values for ItemValues<'_> {
    fn text(&self, position: usize) -> Result<Option<&str>, &'static str> {
        self.0.text(position)
    }

    fn bytes(&self, position: usize) -> Option<&[u8]> {
        self.0.bytes(position)
    }

    fn number(&self, position: usize) -> Result<Option<i64>, &'static str> {
        Ok(self.0.value(position).as_i64().ok())
    }

    fn time(&self, position: usize) -> Result<Option<Timestamp>, &'static str> {
        Ok(stored(self.0.value(position)).map(timestamp))
    }
}
