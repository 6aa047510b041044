//! Decoding of rows: a read never fails, whatever another program wrote.

use std::sync::LazyLock;

use jiff::Timestamp;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, Document, RawBsonRef, RawDocument, doc};
use pillarbox::model::{
    Attempt, Column, EventId, GLOBAL, GroupKey, Malformed, Record, Row, RowDecoder, Seq, Slot, Status,
    Values, WithClaim,
};
use pillarbox::port::ByteLimits;

use crate::document::slot_of;
use crate::time::from_value;

/// Fields have the names of columns.
static DECODER: LazyLock<RowDecoder> = LazyLock::new(RowDecoder::by_name);

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
        self.document.get(field).ok().flatten().filter(is_value)
    }

    fn try_text(&self, field: &str) -> Result<Option<&'a str>, &'static str> {
        text(self.value(field))
    }

    fn try_number(&self, field: &str) -> Result<Option<i64>, &'static str> {
        number(self.value(field))
    }

    fn try_time(&self, field: &str) -> Result<Option<Timestamp>, &'static str> {
        time(self.value(field))
    }

    fn sound<T>(&mut self, field: &str, value: Result<Option<T>, &'static str>) -> Option<T> {
        value.unwrap_or_else(|what| {
            self.blame(field, what);
            None
        })
    }

    fn blame(&mut self, field: &str, what: &str) {
        self.wrong.get_or_insert_with(|| Malformed::new(format!("{field} {what}")));
    }

    pub(crate) fn text(&mut self, field: &str) -> Option<&'a str> {
        self.sound(field, self.try_text(field))
    }

    pub(crate) fn number(&mut self, field: &str) -> Option<i64> {
        self.sound(field, self.try_number(field))
    }

    pub(crate) fn time(&mut self, field: &str) -> Option<Timestamp> {
        self.sound(field, self.try_time(field))
    }

    fn owned(&mut self, field: &str) -> Option<String> {
        self.text(field).map(str::to_owned)
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
        slot_of(self.group().as_ref().map_or(id.as_str(), GroupKey::as_str))
    }

    pub(crate) fn status(&mut self) -> Status {
        self.number("status").and_then(Status::from_code).unwrap_or(Status::New)
    }

    /// The key of the row's group.
    pub(crate) fn group(&mut self) -> Option<GroupKey> {
        let aggregate_type = self.text("aggregate_type").filter(|name| *name != GLOBAL);
        let aggregate_id = self.text("aggregate_id");
        GroupKey::of_columns(self.text("message_group"), aggregate_type, aggregate_id)
    }

    /// The first problem found so far.
    pub(crate) fn wrong(&self) -> Option<String> {
        self.wrong.as_ref().map(ToString::to_string)
    }
}

/// Whether a field with this value is there for readers: null is as good as missing.
fn is_value(value: &RawBsonRef<'_>) -> bool {
    !matches!(value, RawBsonRef::Null | RawBsonRef::Undefined)
}

fn text(value: Option<RawBsonRef<'_>>) -> Result<Option<&str>, &'static str> {
    value.map(|value| value.as_str().ok_or("is not text")).transpose()
}

/// An integer of any BSON number type.
fn number(value: Option<RawBsonRef<'_>>) -> Result<Option<i64>, &'static str> {
    match value {
        None => Ok(None),
        Some(RawBsonRef::Int64(number)) => Ok(Some(number)),
        Some(RawBsonRef::Int32(number)) => Ok(Some(number.into())),
        Some(RawBsonRef::Double(number)) => Ok(Some(number as i64)),
        Some(_) => Err("is not a number"),
    }
}

fn time(value: Option<RawBsonRef<'_>>) -> Result<Option<Timestamp>, &'static str> {
    value.map(|value| from_value(value).ok_or("is not a time")).transpose()
}

/// The fields by the position of their column. They are found in one pass, because the search for a single field reads
/// the document from its beginning.
struct Columns<'a> {
    document: &'a RawDocument,
    values: [Option<RawBsonRef<'a>>; Column::ALL.len()],
    /// Why the row was found to be malformed before.
    malformed: Option<RawBsonRef<'a>>,
}

impl<'a> Columns<'a> {
    fn new(document: &'a RawDocument) -> Self {
        let (mut values, mut malformed) = ([None; Column::ALL.len()], None);
        // What follows a broken field cannot be read.
        for element in document.iter_elements().map_while(Result::ok) {
            let place = match element.key().as_str() {
                "_id" => &mut values[Column::EventId as usize],
                "event_id" => continue,
                "malformed" => &mut malformed,
                name => match Column::named(name) {
                    Some(column) => &mut values[column as usize],
                    None => continue,
                },
            };
            if place.is_none() {
                *place = element.value().ok().filter(is_value);
            }
        }
        Self { document, values, malformed }
    }

    fn value(&self, column: Column) -> Option<RawBsonRef<'a>> {
        self.values[column as usize]
    }

    fn slot(&self) -> i32 {
        match number(self.value(Column::Slot)) {
            Ok(Some(slot)) => slot as i32,
            _ => Fields::new(self.document).home(),
        }
    }

    fn row(&self, claimed: WithClaim) -> Row {
        let row = DECODER.row(self, claimed);
        let slot = Slot(i16::try_from(self.slot()).unwrap_or(i16::MAX));
        let binary = matches!(self.value(Column::PayloadBytes), None | Some(RawBsonRef::Binary(_)));
        let event = match text(self.malformed) {
            Ok(Some(reason)) => Err(Malformed::new(reason)),
            _ if !binary => row.event.and(Err(Malformed::new("payload_bytes is not binary"))),
            _ => row.event,
        };
        Row { slot, event, ..row }
    }
}

impl Values for Columns<'_> {
    fn text(&self, position: usize) -> Result<Option<&str>, &'static str> {
        text(self.values[position])
    }

    fn bytes(&self, position: usize) -> Option<&[u8]> {
        match self.values[position]? {
            RawBsonRef::String(text) => Some(text.as_bytes()),
            RawBsonRef::Binary(binary) => Some(binary.bytes),
            _ => None,
        }
    }

    fn number(&self, position: usize) -> Result<Option<i64>, &'static str> {
        number(self.values[position])
    }

    fn time(&self, position: usize) -> Result<Option<Timestamp>, &'static str> {
        time(self.values[position])
    }

    fn unreadable_id(&self, _: usize) -> String {
        Fields::new(self.document).id().to_string()
    }
}

/// Reads a pending row within limits: the content of a row larger than `limits.row` is dropped after loading.
/// The server limits documents to 16 MiB, so loading is safe.
pub(crate) fn read_within(document: &RawDocument, claimed: WithClaim, limits: &ByteLimits) -> Row {
    let mut read = Columns::new(document).row(claimed);
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
    let columns = Columns::new(document);
    let Row { slot, event, .. } = columns.row(WithClaim::Yes);
    Record { slot, event, ..DECODER.record(&columns) }
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
