//! Decoding of rows: a read never fails, whatever another program wrote.

use jiff::Timestamp;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, Document, RawBsonRef, RawDocument, doc};
use pillarbox::model::{
    Attempt, Decoded, Event, EventBuilder, EventId, GLOBAL, GroupKey, Headers, Malformed, Record, Row, Seq,
    Slot, Status, Token, WithClaim,
};
use pillarbox::port::ByteLimits;

use crate::document::slot_of;
use crate::time::from_value;

/// The field that contains the document size in a read that does not load the document.
pub(crate) const SIZE: &str = "size";

/// The projection that computes `SIZE`, in bytes.
pub(crate) fn size() -> Document {
    doc! { "$bsonSize": "$$ROOT" }
}

/// The value of `SIZE`; zero if it is missing.
pub(crate) fn size_of(document: &RawDocument) -> usize {
    Fields::new(document).number(SIZE).and_then(|size| usize::try_from(size).ok()).unwrap_or_default()
}

/// Reads the fields of one document and keeps the first problem found.
pub(crate) struct Fields<'a> {
    document: &'a RawDocument,
    wrong: Option<Malformed>,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(document: &'a RawDocument) -> Self {
        Self { document, wrong: None }
    }

    /// A value; `None` if the field is missing or null.
    fn value(&self, field: &str) -> Option<RawBsonRef<'a>> {
        let value = self.document.get(field).ok().flatten()?;
        (!matches!(value, RawBsonRef::Null | RawBsonRef::Undefined)).then_some(value)
    }

    fn blame(&mut self, field: &str, what: &str) {
        if self.wrong.is_none() {
            self.wrong = Some(Malformed::new(format!("{field} {what}")));
        }
    }

    pub(crate) fn text(&mut self, field: &str) -> Option<&'a str> {
        let value = self.value(field)?;
        let text = value.as_str();
        if text.is_none() {
            self.blame(field, "is not text");
        }
        text
    }

    fn owned(&mut self, field: &str) -> Option<String> {
        self.text(field).map(str::to_owned)
    }

    /// An integer of any BSON number type.
    pub(crate) fn number(&mut self, field: &str) -> Option<i64> {
        let number = match self.value(field)? {
            RawBsonRef::Int64(number) => Some(number),
            RawBsonRef::Int32(number) => Some(number.into()),
            RawBsonRef::Double(number) => Some(number as i64),
            _ => None,
        };
        if number.is_none() {
            self.blame(field, "is not a number");
        }
        number
    }

    /// The length of a text or binary value, in bytes.
    fn length(&self, field: &str) -> usize {
        match self.value(field) {
            Some(RawBsonRef::String(text)) => text.len(),
            Some(RawBsonRef::Binary(binary)) => binary.bytes.len(),
            _ => 0,
        }
    }

    /// The size of the event's texts and payload, in bytes. For a claimed row it includes the last error.
    fn size(&self, keys: &Keys<'_>, claimed: WithClaim) -> usize {
        const COUNTED: [&str; 10] = [
            "_id",
            "event_type",
            "aggregate_id",
            "tenant_id",
            "message_group",
            "message_id",
            "correlation_id",
            "headers",
            "payload",
            "payload_bytes",
        ];
        let error = if claimed == WithClaim::Yes { self.length("last_error") } else { 0 };
        let fields: usize = COUNTED.iter().map(|field| self.length(field)).sum();
        fields + error + keys.aggregate_type.map_or(0, str::len)
    }

    pub(crate) fn time(&mut self, field: &str) -> Option<Timestamp> {
        let time = from_value(self.value(field)?);
        if time.is_none() {
            self.blame(field, "is not a time");
        }
        time
    }

    /// Whether the field has a value of any type.
    pub(crate) fn has(&self, field: &str) -> bool {
        self.value(field).is_some()
    }

    /// The key in its stored type, for filters.
    pub(crate) fn key(&self) -> Bson {
        self.value("_id").and_then(|id| Bson::try_from(id).ok()).unwrap_or(Bson::Null)
    }

    /// Whether the field contains this mark.
    pub(crate) fn is(&self, field: &str, mark: ObjectId) -> bool {
        matches!(self.value(field), Some(RawBsonRef::ObjectId(found)) if found == mark)
    }

    /// The event's id. A key that is not text makes the row malformed; its id is then a readable form of the
    /// key.
    pub(crate) fn id(&mut self) -> EventId {
        match self.value("_id") {
            Some(RawBsonRef::String(text)) => EventId::from_row(text),
            other => {
                self.blame("_id", "is not text");
                match other {
                    Some(RawBsonRef::Binary(binary)) => {
                        EventId::from_row(&*String::from_utf8_lossy(binary.bytes))
                    }
                    Some(RawBsonRef::ObjectId(id)) => EventId::from_row(id.to_hex()),
                    _ => EventId::from_row(""),
                }
            }
        }
    }

    pub(crate) fn seq(&mut self) -> Seq {
        Seq(self.number("seq").unwrap_or_default())
    }

    pub(crate) fn slot(&mut self) -> i32 {
        match self.number("slot") {
            Some(slot) => slot as i32,
            None => self.home(),
        }
    }

    /// The slot of the row's group, or of its id if it has no group.
    pub(crate) fn home(&mut self) -> i32 {
        let id = self.id();
        let keys = self.keys();
        slot_of(keys.group().as_ref().map_or(id.as_str(), GroupKey::as_str))
    }

    pub(crate) fn status(&mut self) -> Status {
        self.number("status").and_then(Status::from_code).unwrap_or(Status::New)
    }

    fn attempts(&mut self) -> u32 {
        u32::try_from(self.number("attempts").unwrap_or_default().max(0)).unwrap_or(u32::MAX)
    }

    pub(crate) fn keys(&mut self) -> Keys<'a> {
        Keys {
            aggregate_type: self.text("aggregate_type").filter(|name| *name != GLOBAL),
            aggregate_id: self.text("aggregate_id"),
            message_group: self.text("message_group"),
        }
    }

    /// The first problem found so far.
    pub(crate) fn wrong(&self) -> Option<String> {
        self.wrong.as_ref().map(ToString::to_string)
    }

    fn event(
        &mut self,
        id: &EventId,
        keys: &Keys<'_>,
        created_at: Timestamp,
        expires_at: Option<Timestamp>,
    ) -> Decoded {
        if let Some(reason) = self.text("malformed") {
            return Err(Malformed::new(reason));
        }
        let event_type = self.text("event_type").unwrap_or_default();
        let mut builder =
            Event::builder(event_type).occurred_at(self.time("occurred_at").unwrap_or(created_at));
        if let Some(name) = keys.aggregate_type {
            builder = builder.aggregate_type(name);
        }
        if let Some(aggregate_id) = keys.aggregate_id {
            builder = builder.aggregate_id(aggregate_id);
        }
        if let Some(group) = keys.message_group {
            builder = builder.group(group);
        }
        if let Some(tenant) = self.text("tenant_id") {
            builder = builder.tenant(tenant);
        }
        if let Some(message) = self.text("message_id") {
            builder = builder.message_id(message);
        }
        if let Some(correlation) = self.text("correlation_id") {
            builder = builder.correlation_id(correlation);
        }
        if let Some(due) = self.time("due_at") {
            builder = builder.due(due);
        }
        if let Some(expires) = expires_at {
            builder = builder.expires(expires);
        }
        if let Some(stored) = self.text("headers") {
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
        match self.value("payload_bytes") {
            Some(RawBsonRef::Binary(binary)) => return builder.payload_bytes(binary.bytes),
            Some(_) => self.blame("payload_bytes", "is not binary"),
            None => {}
        }
        if let Some(text) = self.text("payload") {
            return builder.payload_json(text);
        }
        self.blame("payload", "and payload_bytes are both missing");
        builder
    }
}

/// The fields that determine a row's group.
pub(crate) struct Keys<'a> {
    /// `None` for the global aggregate type.
    aggregate_type: Option<&'a str>,
    aggregate_id: Option<&'a str>,
    message_group: Option<&'a str>,
}

impl Keys<'_> {
    pub(crate) fn group(&self) -> Option<GroupKey> {
        if let Some(group) = self.message_group {
            return Some(GroupKey::new(group));
        }
        let id = self.aggregate_id?;
        Some(GroupKey::new(format!("{}/{id}", self.aggregate_type.unwrap_or(GLOBAL))))
    }
}

/// Reads a pending row for delivery.
pub(crate) fn read_row(document: &RawDocument, claimed: WithClaim) -> Row {
    let mut fields = Fields::new(document);
    let id = fields.id();
    let created_at = fields.time("created_at").unwrap_or_default();
    let expires_at = fields.time("expires_at");
    let keys = fields.keys();
    Row {
        seq: fields.seq(),
        slot: Slot(i16::try_from(fields.slot()).unwrap_or(i16::MAX)),
        status: fields.status(),
        attempts: fields.attempts(),
        created_at,
        available_at: fields.time("available_at").unwrap_or_default(),
        expires_at,
        token: match claimed {
            WithClaim::Yes => Token(fields.number("lock_token").unwrap_or_default()),
            WithClaim::No => Token::default(),
        },
        last_error: if matches!(claimed, WithClaim::Yes) { fields.owned("last_error") } else { None },
        lapsed: false,
        group: keys.group(),
        bytes: fields.size(&keys, claimed),
        event: fields.event(&id, &keys, created_at, expires_at),
        id,
    }
}

/// Reads a pending row within limits: the content of a row larger than `limits.row` is dropped after loading.
/// The server limits documents to 16 MiB, so loading is safe.
pub(crate) fn read_within(document: &RawDocument, claimed: WithClaim, limits: &ByteLimits) -> Row {
    let mut read = read_row(document, claimed);
    if claimed == WithClaim::Yes {
        // The claim counted the whole document against its byte limit.
        read.bytes = document.as_bytes().len();
    }
    if read.bytes <= limits.row {
        return read;
    }
    let event = Err(Malformed::too_large(read.bytes, limits.row));
    Row { bytes: 0, last_error: None, event, ..read }
}

/// Reads all fields of a row, for operators.
pub(crate) fn read_record(document: &RawDocument) -> Record {
    let read = read_row(document, WithClaim::Yes);
    let mut fields = Fields::new(document);
    Record {
        seq: read.seq,
        id: read.id,
        slot: read.slot,
        status: read.status,
        attempts: read.attempts,
        created_at: read.created_at,
        available_at: read.available_at,
        expires_at: read.expires_at,
        done_at: fields.time("done_at"),
        last_error: fields.owned("last_error"),
        processed_by: fields.owned("processed_by"),
        locked_by: fields.owned("locked_by"),
        locked_until: fields.time("locked_until"),
        token: read.token,
        group: read.group,
        event: read.event,
    }
}

/// Reads the failed attempts of a row, oldest first.
pub(crate) fn read_attempts(document: &RawDocument) -> Vec<Attempt> {
    let Ok(failures) = document.get_array("failures") else { return Vec::new() };
    let failures = failures.into_iter().flatten().filter_map(|failure| failure.as_document());
    let attempt = |failure| {
        let mut fields = Fields::new(failure);
        Attempt {
            number: u32::try_from(fields.number("number").unwrap_or_default()).unwrap_or_default(),
            at: fields.time("failed_at").unwrap_or_default(),
            by: fields.owned("failed_by").unwrap_or_default(),
            error: fields.owned("error").unwrap_or_default(),
        }
    };
    failures.map(attempt).collect()
}
