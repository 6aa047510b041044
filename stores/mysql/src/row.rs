//! Rows as they are read: whatever someone else wrote, a read never fails on it.

use jiff::Timestamp;
use pillarbox::model::{
    Decoded, Event, EventBuilder, EventId, GLOBAL, GroupKey, Headers, Malformed, Record, Row, Seq, Slot,
    Status, Token,
};
use sqlx::mysql::{MySql, MySqlRow};
use sqlx::{Column, Decode, Row as _, ValueRef};

use crate::time::{from_binary, from_text};

/// What every read of rows selects, in the order of the constants below.
pub(crate) const COLUMNS: &str = "seq, event_id, slot, status, attempts, created_at, available_at, expires_at, \
    event_type, aggregate_type, aggregate_id, tenant_id, message_group, message_id, correlation_id, occurred_at, \
    due_at, headers, payload, payload_bytes, lock_token";
/// The same for a read that loads no contents beyond so many bytes: what is larger is NULL.
pub(crate) const LIGHT_COLUMNS: &str = "seq, event_id, slot, status, attempts, created_at, available_at, expires_at, \
    event_type, aggregate_type, aggregate_id, tenant_id, message_group, message_id, correlation_id, occurred_at, \
    due_at, CASE WHEN length(headers) <= {most} THEN headers END AS headers, \
    CASE WHEN length(payload) <= {most} THEN payload END AS payload, \
    CASE WHEN length(payload_bytes) <= {most} THEN payload_bytes END AS payload_bytes, lock_token";
/// How many bytes the contents have of which some were left out; NULL where none were.
pub(crate) const LEFT_OUT: &str = "CASE WHEN length(payload) > {most} OR length(payload_bytes) > {most} OR length(headers) > {most} \
    THEN coalesce(length(payload), 0) + coalesce(length(payload_bytes), 0) + coalesce(length(headers), 0) END";
/// The last error, as a claim tells it, how many bytes it has with the contents if some of them were left out, and whether the
/// claim before ran out.
pub(crate) const CLAIM_TAIL: &str = "CASE WHEN length(last_error) <= {most} THEN last_error END, \
    CASE WHEN length(payload) > {most} OR length(payload_bytes) > {most} OR length(headers) > {most} OR length(last_error) > {most} \
    THEN coalesce(length(payload), 0) + coalesce(length(payload_bytes), 0) + coalesce(length(headers), 0) \
    + coalesce(length(last_error), 0) END, locked_at IS NOT NULL";
/// What people see beyond that.
pub(crate) const RECORD_COLUMNS: &str = "done_at, last_error, locked_by, locked_until, processed_by";

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
/// The database's now, after the columns of a read.
pub(crate) const NOW: usize = 21;
/// Bytes of contents that were left out, after the time.
const LEFT_OUT_BYTES: usize = 22;
const DONE_AT: usize = 21;
const LAST_ERROR: usize = 22;
const LOCKED_BY: usize = 23;
const LOCKED_UNTIL: usize = 24;
const PROCESSED_BY: usize = 25;
/// Why it failed before, after the columns of a claim and the time.
const CLAIM_ERROR: usize = 22;
/// Bytes of contents that a claim left out.
const CLAIM_LEFT_OUT_BYTES: usize = 23;
/// Whether the claim before ran out, after that.
const CLAIM_LAPSED: usize = 24;

/// Reads the columns of one row and keeps the first thing that is wrong with them.
struct Columns<'a> {
    row: &'a MySqlRow,
    wrong: Option<Malformed>,
}

impl<'a> Columns<'a> {
    fn value(&self, column: usize) -> Option<&'a [u8]> {
        bytes_of(self.row, column)
    }

    fn blame(&mut self, column: usize, what: &str) {
        if self.wrong.is_none() {
            let name = self.row.columns().get(column).map_or("a column", |column| column.name());
            self.wrong = Some(Malformed::new(format!("{name} {what}")));
        }
    }

    /// A text, or nothing where the column is NULL.
    fn text(&mut self, column: usize) -> Option<&'a str> {
        let text = std::str::from_utf8(self.value(column)?).ok();
        if text.is_none() {
            self.blame(column, "is not UTF-8");
        }
        text
    }

    fn number(&self, column: usize) -> Option<i64> {
        number_of(self.row, column)
    }

    /// Bytes of the names.
    fn names_size(&self, keys: &Keys<'_>) -> usize {
        let names =
            [EVENT_ID, EVENT_TYPE, AGGREGATE_ID, TENANT_ID, MESSAGE_GROUP, MESSAGE_ID, CORRELATION_ID];
        let names = names.into_iter().filter_map(|column| self.value(column)).map(<[u8]>::len);
        names.sum::<usize>() + keys.aggregate_type.map_or(0, str::len)
    }

    /// Bytes of headers and payload, as far as they were read.
    fn contents_size(&self) -> usize {
        let contents = [HEADERS, PAYLOAD, PAYLOAD_BYTES];
        contents.into_iter().filter_map(|column| self.value(column)).map(<[u8]>::len).sum()
    }

    fn time(&self, column: usize) -> Option<Timestamp> {
        time_of(self.row, column)
    }

    fn owned(&mut self, column: usize) -> Option<String> {
        self.text(column).map(str::to_owned)
    }

    fn seq(&self) -> Seq {
        Seq(self.number(SEQ).unwrap_or_default())
    }

    fn id(&mut self) -> EventId {
        EventId::from_row(self.text(EVENT_ID).unwrap_or_default())
    }

    fn slot(&self) -> Slot {
        Slot(self.number(SLOT).and_then(|slot| i16::try_from(slot).ok()).unwrap_or(i16::MAX))
    }

    fn status(&self) -> Status {
        self.number(STATUS).and_then(Status::from_code).unwrap_or(Status::New)
    }

    fn attempts(&self) -> u32 {
        u32::try_from(self.number(ATTEMPTS).unwrap_or_default().max(0)).unwrap_or(u32::MAX)
    }

    fn token(&self) -> Token {
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
        if let Some(bytes) = self.value(PAYLOAD_BYTES) {
            builder.payload_bytes(bytes)
        } else if let Some(text) = self.text(PAYLOAD) {
            builder.payload_json(text)
        } else {
            self.blame(PAYLOAD, "and payload_bytes are both missing");
            builder
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
pub(crate) fn read_row(row: &MySqlRow, claimed: Claimed) -> Row {
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
        last_error: None,
        lapsed: false,
        group: keys.group(),
        bytes: columns.names_size(&keys) + columns.contents_size(),
        event: columns.event(&id, &keys, created_at, expires_at),
        id,
    }
}

/// A row of which contents may have been left out: how many bytes it then has.
pub(crate) fn read_light(row: &MySqlRow) -> (Row, Option<usize>) {
    (read_row(row, Claimed::No), left_out(row, LEFT_OUT_BYTES))
}

/// A row that is being claimed, which tells why it failed before. Contents may have been left out: how many bytes it then has.
pub(crate) fn read_claimed(row: &MySqlRow) -> (Row, Option<usize>) {
    let mut columns = Columns { row, wrong: None };
    let last_error = columns.owned(CLAIM_ERROR);
    let lapsed = columns.number(CLAIM_LAPSED).is_some_and(|value| value != 0);
    let read = read_row(row, Claimed::Yes);
    let bytes = read.bytes + last_error.as_ref().map_or(0, String::len);
    (Row { last_error, lapsed, bytes, ..read }, left_out(row, CLAIM_LEFT_OUT_BYTES))
}

fn left_out(row: &MySqlRow, column: usize) -> Option<usize> {
    let contents = usize::try_from(number_of(row, column)?).ok()?;
    let mut columns = Columns { row, wrong: None };
    let keys = columns.keys();
    Some(columns.names_size(&keys) + contents)
}

/// Everything in a row, for people.
pub(crate) fn read_record(row: &MySqlRow) -> Record {
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
        last_error: columns.owned(LAST_ERROR),
        processed_by: columns.owned(PROCESSED_BY),
        locked_by: columns.owned(LOCKED_BY),
        locked_until: columns.time(LOCKED_UNTIL),
        token: read.token,
        group: read.group,
        event: read.event,
    }
}

/// When a row was written, for a reader that must tell the young from the old.
pub(crate) fn created_at(row: &MySqlRow) -> Timestamp {
    Columns { row, wrong: None }.time(CREATED_AT).unwrap_or(Timestamp::MIN)
}

/// The number of a row.
pub(crate) fn seq_of(row: &MySqlRow) -> Seq {
    Columns { row, wrong: None }.seq()
}

/// The bytes of a column; none where it is NULL.
pub(crate) fn bytes_of(row: &MySqlRow, column: usize) -> Option<&[u8]> {
    let value = row.try_get_raw(column).ok()?;
    if value.is_null() { None } else { <&[u8] as Decode<MySql>>::decode(value).ok() }
}

/// A text; none where the column is NULL or no UTF-8. The driver would take columns that compare by bytes for binary.
pub(crate) fn text_of(row: &MySqlRow, column: usize) -> Option<&str> {
    std::str::from_utf8(bytes_of(row, column)?).ok()
}

/// An integer of whatever width, of a prepared statement.
pub(crate) fn number_of(row: &MySqlRow, column: usize) -> Option<i64> {
    let bytes = bytes_of(row, column)?;
    Some(match bytes.len() {
        1 => i8::from_le_bytes(bytes.try_into().ok()?).into(),
        2 => i16::from_le_bytes(bytes.try_into().ok()?).into(),
        4 => i32::from_le_bytes(bytes.try_into().ok()?).into(),
        _ => i64::from_le_bytes(bytes.try_into().ok()?),
    })
}

/// A time, of a prepared statement.
pub(crate) fn time_of(row: &MySqlRow, column: usize) -> Option<Timestamp> {
    from_binary(bytes_of(row, column)?)
}

/// A number of a text that was not prepared; zero where there is none.
pub(crate) fn text_number(row: &MySqlRow, column: usize) -> i64 {
    text_of(row, column).and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// A time of a text that was not prepared.
pub(crate) fn text_time(row: &MySqlRow, column: usize) -> Option<Timestamp> {
    from_text(text_of(row, column)?)
}
