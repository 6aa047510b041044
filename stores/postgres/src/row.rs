//! Rows as they are read: whatever someone else wrote, a read never fails on it.

use jiff::Timestamp;
use pillarbox::model::{
    Decoded, Event, EventBuilder, EventId, GLOBAL, GroupKey, Headers, Malformed, Record, Row, Seq, Slot,
    Status, Token,
};
use sqlx::postgres::PgRow;
use sqlx::{Column, Row as _, ValueRef};

use crate::time::from_binary;

/// What every read of rows selects, in the order of the constants below.
pub(crate) const COLUMNS: &str = "seq, event_id, slot, status, attempts, created_at, available_at, expires_at, \
    event_type, aggregate_type, aggregate_id, tenant_id, message_group, message_id, correlation_id, occurred_at, \
    due_at, headers, payload, payload_bytes, lock_token";
/// The same for a read that loads no contents beyond `$1` bytes: what is larger is NULL.
pub(crate) const LIGHT_COLUMNS: &str = "seq, event_id, slot, status, attempts, created_at, available_at, expires_at, \
    event_type, aggregate_type, aggregate_id, tenant_id, message_group, message_id, correlation_id, occurred_at, \
    due_at, CASE WHEN octet_length(headers) <= $1 THEN headers END AS headers, \
    CASE WHEN octet_length(payload) <= $1 THEN payload END AS payload, \
    CASE WHEN octet_length(payload_bytes) <= $1 THEN payload_bytes END AS payload_bytes, lock_token";
/// How many bytes the contents have of which some were left out; NULL where none were. The length is known without them.
pub(crate) const LEFT_OUT: &str = "CASE WHEN octet_length(payload) > $1 OR octet_length(payload_bytes) > $1 \
    OR octet_length(headers) > $1 THEN coalesce(octet_length(payload), 0)::bigint \
    + coalesce(octet_length(payload_bytes), 0) + coalesce(octet_length(headers), 0) END";
/// How many bytes a claim of the row `e` loads.
pub(crate) const CLAIM_BYTES: &str = "(octet_length(concat(e.event_id, e.event_type, nullif(e.aggregate_type, '__GLOBAL__'), \
    e.aggregate_id, e.tenant_id, e.message_group, e.message_id, e.correlation_id)) \
    + coalesce(octet_length(e.headers), 0)::bigint + coalesce(octet_length(e.payload), 0) \
    + coalesce(octet_length(e.payload_bytes), 0) + coalesce(octet_length(e.last_error), 0))";
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
/// Why it failed before, after the columns of a claim.
const CLAIM_ERROR: usize = 21;
/// How many bytes a claimed row has.
const CLAIMED_BYTES: usize = 22;
/// Whether the claim before ran out, after that.
const CLAIM_LAPSED: usize = 23;

/// Reads the columns of one row and keeps the first thing that is wrong with them.
struct Columns<'a> {
    row: &'a PgRow,
    wrong: Option<Malformed>,
}

impl<'a> Columns<'a> {
    fn value(&self, column: usize) -> Option<&'a [u8]> {
        let value = self.row.try_get_raw(column).ok()?;
        if value.is_null() { None } else { value.as_bytes().ok() }
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

    /// An integer of whatever width.
    fn number(&self, column: usize) -> Option<i64> {
        let bytes = self.value(column)?;
        Some(match bytes.len() {
            2 => i16::from_be_bytes(bytes.try_into().ok()?).into(),
            4 => i32::from_be_bytes(bytes.try_into().ok()?).into(),
            _ => i64::from_be_bytes(bytes.try_into().ok()?),
        })
    }

    fn size(&self, column: usize) -> Option<usize> {
        usize::try_from(self.number(column)?).ok()
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
        from_binary(self.value(column)?).ok()
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
pub(crate) fn read_row(row: &PgRow, claimed: Claimed) -> Row {
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
pub(crate) fn read_light(row: &PgRow) -> (Row, Option<usize>) {
    let mut columns = Columns { row, wrong: None };
    let left_out = columns.size(LEFT_OUT_BYTES).map(|contents| {
        let keys = columns.keys();
        columns.names_size(&keys) + contents
    });
    (read_row(row, Claimed::No), left_out)
}

/// A row that was claimed, which tells why it failed before. Its contents are there unless they are more than a row may have.
pub(crate) fn read_claimed(row: &PgRow, most: usize) -> Row {
    let mut columns = Columns { row, wrong: None };
    let (bytes, last_error) = (columns.size(CLAIMED_BYTES).unwrap_or_default(), columns.owned(CLAIM_ERROR));
    let lapsed = columns.value(CLAIM_LAPSED).is_some_and(|value| value != [0]);
    let read = Row { last_error, lapsed, bytes, ..read_row(row, Claimed::Yes) };
    if bytes <= most { read } else { Row { bytes: 0, event: Err(Malformed::too_large(bytes, most)), ..read } }
}

/// Everything in a row, for people.
pub(crate) fn read_record(row: &PgRow) -> Record {
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
pub(crate) fn created_at(row: &PgRow) -> Timestamp {
    Columns { row, wrong: None }.time(CREATED_AT).unwrap_or(Timestamp::MIN)
}

/// The number of a row.
pub(crate) fn seq_of(row: &PgRow) -> Seq {
    Columns { row, wrong: None }.seq()
}
