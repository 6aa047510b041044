//! Rows as they are read: whatever someone else wrote, a read never fails on it.

use std::fmt::Write;

use jiff::Timestamp;
use pillarbox::model::{
    Decoded, Event, EventBuilder, EventId, GLOBAL, GroupKey, Headers, Malformed, Record, Row, Seq, Slot,
    Status, Token,
};
use pillarbox::port::ByteLimits;
use rusqlite::types::ValueRef;

use crate::time::timestamp;

/// What every read of rows selects, in the order of the constants below.
pub(crate) const COLUMNS: &str = "seq, event_id, slot, status, attempts, created_at, available_at, expires_at, \
    event_type, aggregate_type, aggregate_id, tenant_id, message_group, message_id, correlation_id, occurred_at, \
    due_at, headers, payload, payload_bytes, lock_token, last_error";
/// The same for a read that loads no contents beyond `?1` bytes: what is larger is NULL. Lengths are known without contents.
pub(crate) const LIGHT_COLUMNS: &str = "seq, event_id, slot, status, attempts, created_at, available_at, expires_at, \
    event_type, aggregate_type, aggregate_id, tenant_id, message_group, message_id, correlation_id, occurred_at, \
    due_at, iif(octet_length(headers) <= ?1, headers, NULL) AS headers, \
    iif(octet_length(payload) <= ?1, payload, NULL) AS payload, \
    iif(octet_length(payload_bytes) <= ?1, payload_bytes, NULL) AS payload_bytes, lock_token, \
    iif(octet_length(last_error) <= ?1, last_error, NULL) AS last_error";
/// How many bytes the contents have of which some were left out; NULL where none were.
pub(crate) const LEFT_OUT: &str = "CASE WHEN octet_length(payload) > ?1 OR octet_length(headers) > ?1 \
    OR octet_length(payload_bytes) > ?1 OR octet_length(last_error) > ?1 THEN ifnull(octet_length(payload), 0) \
    + ifnull(octet_length(headers), 0) + ifnull(octet_length(payload_bytes), 0) + ifnull(octet_length(last_error), 0) END";
/// What people see beyond that.
pub(crate) const RECORD_COLUMNS: &str = "done_at, locked_by, locked_until, processed_by";

/// An id that is no text, as [`Columns::id`] shows it: outcomes of such a row name it so.
pub(crate) const ID_IN_HEX: &str = "('x''' || hex(event_id) || '''')";

const SEQ: usize = 0;
const EVENT_ID: usize = 1;
const SLOT: usize = 2;
const STATUS: usize = 3;
const ATTEMPTS: usize = 4;
const CREATED_AT: usize = 5;
const AVAILABLE_AT: usize = 6;
const EXPIRES_AT: usize = 7;
const EVENT_TYPE: usize = 8;
const AGGREGATE_TYPE: usize = 9;
const AGGREGATE_ID: usize = 10;
const TENANT_ID: usize = 11;
const MESSAGE_GROUP: usize = 12;
const MESSAGE_ID: usize = 13;
const CORRELATION_ID: usize = 14;
const OCCURRED_AT: usize = 15;
const DUE_AT: usize = 16;
const HEADERS: usize = 17;
const PAYLOAD: usize = 18;
const PAYLOAD_BYTES: usize = 19;
const LOCK_TOKEN: usize = 20;
const LAST_ERROR: usize = 21;
/// Bytes of contents that were left out, after the columns of a read.
const LEFT_OUT_BYTES: usize = 22;
const DONE_AT: usize = 22;
const LOCKED_BY: usize = 23;
const LOCKED_UNTIL: usize = 24;
const PROCESSED_BY: usize = 25;
/// Whether the claim before ran out, after the columns of rows that are due.
const LAPSED: usize = 23;

/// Reads the columns of one row and keeps the first thing that is wrong with them.
struct Columns<'a> {
    row: &'a rusqlite::Row<'a>,
    wrong: Option<Malformed>,
}

impl<'a> Columns<'a> {
    fn value(&self, column: usize) -> ValueRef<'a> {
        self.row.get_ref(column).unwrap_or(ValueRef::Null)
    }

    fn blame(&mut self, column: usize, what: &str) {
        if self.wrong.is_none() {
            let name = self.row.as_ref().column_name(column).unwrap_or("a column").to_owned();
            self.wrong = Some(Malformed::new(format!("{name} {what}")));
        }
    }

    /// A text, or nothing where the column is NULL.
    fn text(&mut self, column: usize) -> Option<&'a str> {
        match self.value(column) {
            ValueRef::Null => None,
            ValueRef::Text(bytes) => {
                let text = std::str::from_utf8(bytes).ok();
                if text.is_none() {
                    self.blame(column, "is not UTF-8");
                }
                text
            }
            _ => {
                self.blame(column, "is not text");
                None
            }
        }
    }

    fn number(&mut self, column: usize) -> Option<i64> {
        match self.value(column) {
            ValueRef::Null => None,
            ValueRef::Integer(number) => Some(number),
            // Writers that compute times in floating point leave such.
            ValueRef::Real(number) => Some(number as i64),
            _ => {
                self.blame(column, "is not a number");
                None
            }
        }
    }

    /// Bytes of the names and of contents, as far as they were read.
    fn size(&self, keys: &Keys<'_>, claimed: Claimed) -> usize {
        let bytes = |column: usize| self.value(column).as_bytes().map_or(0, <[u8]>::len);
        let names =
            [EVENT_ID, EVENT_TYPE, AGGREGATE_ID, TENANT_ID, MESSAGE_GROUP, MESSAGE_ID, CORRELATION_ID];
        let contents = [HEADERS, PAYLOAD, PAYLOAD_BYTES];
        let error = if claimed == Claimed::Yes { bytes(LAST_ERROR) } else { 0 };
        let columns: usize = names.into_iter().chain(contents).map(bytes).sum();
        columns + error + keys.aggregate_type.map_or(0, str::len)
    }

    fn time(&mut self, column: usize) -> Option<Timestamp> {
        self.number(column).map(timestamp)
    }

    fn owned(&mut self, column: usize) -> Option<String> {
        self.text(column).map(str::to_owned)
    }

    fn seq(&mut self) -> Seq {
        Seq(self.number(SEQ).unwrap_or_default())
    }

    fn id(&mut self) -> EventId {
        if let Some(text) = self.text(EVENT_ID) {
            return EventId::from_row(text);
        }
        let mut shown = "x'".to_owned();
        for byte in self.value(EVENT_ID).as_bytes().unwrap_or_default() {
            let _ = write!(shown, "{byte:02X}");
        }
        shown.push('\'');
        EventId::from_row(shown)
    }

    fn slot(&mut self) -> Slot {
        let number = self.number(SLOT).unwrap_or_default();
        Slot(i16::try_from(number).unwrap_or(i16::MAX))
    }

    fn status(&mut self) -> Status {
        self.number(STATUS).and_then(Status::from_code).unwrap_or(Status::New)
    }

    fn attempts(&mut self) -> u32 {
        let number = self.number(ATTEMPTS).unwrap_or_default();
        u32::try_from(number.max(0)).unwrap_or(u32::MAX)
    }

    fn token(&mut self) -> Token {
        Token(self.number(LOCK_TOKEN).unwrap_or_default())
    }

    fn keys(&mut self) -> Keys<'a> {
        Keys {
            aggregate_type: self.text(AGGREGATE_TYPE).filter(|name| *name != GLOBAL),
            aggregate_id: self.text(AGGREGATE_ID),
            message_group: self.text(MESSAGE_GROUP),
        }
    }

    fn event(
        &mut self,
        id: &EventId,
        keys: &Keys<'_>,
        created_at: Timestamp,
        expires_at: Option<Timestamp>,
    ) -> Decoded {
        let event_type = self.text(EVENT_TYPE).unwrap_or_default();
        let mut builder =
            Event::builder(event_type).occurred_at(self.time(OCCURRED_AT).unwrap_or(created_at));
        if let Some(name) = keys.aggregate_type {
            builder = builder.aggregate_type(name);
        }
        if let Some(aggregate_id) = keys.aggregate_id {
            builder = builder.aggregate_id(aggregate_id);
        }
        if let Some(group) = keys.message_group {
            builder = builder.group(group);
        }
        if let Some(tenant) = self.text(TENANT_ID) {
            builder = builder.tenant(tenant);
        }
        if let Some(message) = self.text(MESSAGE_ID) {
            builder = builder.message_id(message);
        }
        if let Some(correlation) = self.text(CORRELATION_ID) {
            builder = builder.correlation_id(correlation);
        }
        if let Some(due) = self.time(DUE_AT) {
            builder = builder.due(due);
        }
        if let Some(expires) = expires_at {
            builder = builder.expires(expires);
        }
        if let Some(stored) = self.text(HEADERS) {
            match Headers::from_stored(Some(stored)) {
                Ok(headers) => builder = builder.headers(headers),
                Err(malformed) => self.wrong = self.wrong.take().or(Some(malformed)),
            }
        }
        builder = self.payload(builder);
        match self.wrong.take() {
            Some(malformed) => Err(malformed),
            None => Ok(builder.build_from_row(id.clone())),
        }
    }

    fn payload(&mut self, builder: EventBuilder) -> EventBuilder {
        match (self.value(PAYLOAD_BYTES), self.value(PAYLOAD)) {
            (ValueRef::Blob(bytes) | ValueRef::Text(bytes), _) | (_, ValueRef::Blob(bytes)) => {
                builder.payload_bytes(bytes)
            }
            (_, ValueRef::Text(_)) => builder.payload_json(self.text(PAYLOAD).unwrap_or_default()),
            _ => {
                self.blame(PAYLOAD, "and payload_bytes are both missing");
                builder
            }
        }
    }
}

/// What the group of a row is made of.
struct Keys<'a> {
    /// None for the global one.
    aggregate_type: Option<&'a str>,
    aggregate_id: Option<&'a str>,
    message_group: Option<&'a str>,
}

impl Keys<'_> {
    fn group(&self) -> Option<GroupKey> {
        if let Some(group) = self.message_group {
            return Some(GroupKey::new(group));
        }
        let id = self.aggregate_id?;
        Some(GroupKey::new(format!("{}/{id}", self.aggregate_type.unwrap_or(GLOBAL))))
    }
}

/// Whether a claim goes with the row that is read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Claimed {
    No,
    Yes,
}

/// A pending row as it is read for delivery.
pub(crate) fn read_row(row: &rusqlite::Row<'_>, claimed: Claimed) -> Row {
    let mut columns = Columns { row, wrong: None };
    let id = columns.id();
    let created_at = columns.time(CREATED_AT).unwrap_or_default();
    let expires_at = columns.time(EXPIRES_AT);
    let keys = columns.keys();
    Row {
        seq: columns.seq(),
        slot: columns.slot(),
        status: columns.status(),
        attempts: columns.attempts(),
        created_at,
        available_at: columns.time(AVAILABLE_AT).unwrap_or_default(),
        expires_at,
        token: if claimed == Claimed::Yes { columns.token() } else { Token::default() },
        last_error: if claimed == Claimed::Yes { last_error(row) } else { None },
        lapsed: false,
        group: keys.group(),
        bytes: columns.size(&keys, claimed),
        event: columns.event(&id, &keys, created_at, expires_at),
        id,
    }
}

/// A pending row within limits: one that has more bytes than a row may have comes without its contents.
pub(crate) fn read_within(row: &rusqlite::Row<'_>, claimed: Claimed, limits: &ByteLimits) -> Row {
    let read = read_row(row, claimed);
    let left_out = row.get::<_, Option<i64>>(LEFT_OUT_BYTES).ok().flatten();
    let size = left_out.map_or(read.bytes, |size| usize::try_from(size).unwrap_or(usize::MAX));
    if size <= limits.row {
        return read;
    }
    Row { bytes: 0, last_error: None, event: Err(Malformed::too_large(size, limits.row)), ..read }
}

/// A row that is being claimed, which tells whether the claim before ran out.
pub(crate) fn read_claimed(row: &rusqlite::Row<'_>, limits: &ByteLimits) -> Row {
    Row { lapsed: row.get(LAPSED).unwrap_or_default(), ..read_within(row, Claimed::Yes, limits) }
}

/// The last error, if it can be read: whatever else it is says nothing about the event.
fn last_error(row: &rusqlite::Row<'_>) -> Option<String> {
    Columns { row, wrong: None }.owned(LAST_ERROR)
}

/// Everything in a row, for people.
pub(crate) fn read_record(row: &rusqlite::Row<'_>) -> Record {
    let read = read_row(row, Claimed::Yes);
    let mut columns = Columns { row, wrong: None };
    Record {
        seq: read.seq,
        id: read.id,
        slot: read.slot,
        status: read.status,
        attempts: read.attempts,
        created_at: read.created_at,
        available_at: read.available_at,
        expires_at: read.expires_at,
        done_at: columns.time(DONE_AT),
        last_error: read.last_error,
        processed_by: columns.owned(PROCESSED_BY),
        locked_by: columns.owned(LOCKED_BY),
        locked_until: columns.time(LOCKED_UNTIL),
        token: read.token,
        group: read.group,
        event: read.event,
    }
}

/// When a row was written, for a reader that must tell the young from the old.
pub(crate) fn created_us(row: &rusqlite::Row<'_>) -> i64 {
    match row.get_ref(CREATED_AT) {
        Ok(ValueRef::Integer(us)) => us,
        _ => i64::MIN,
    }
}

/// A text of someone else's, whatever it is.
pub(crate) fn lossy_text(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<String> {
    let value = row.get_ref(column)?;
    Ok(value.as_bytes().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).unwrap_or_default())
}
