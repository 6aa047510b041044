//! Decoding of rows of any store: a read never fails, whatever another program wrote.

use jiff::Timestamp;

use super::column::Column;
use super::flowcatalyst::Item;
use super::{
    Decoded, Event, EventBuilder, EventId, GLOBAL, GroupKey, Headers, Malformed, Record, Row, Seq, Slot,
    Status, Token,
};

/// The short text columns of a row, which are always loaded.
const NAMES: [Column; 7] = [
    Column::EventId,
    Column::EventType,
    Column::AggregateId,
    Column::TenantId,
    Column::MessageGroup,
    Column::MessageId,
    Column::CorrelationId,
];
const CONTENTS: [Column; 3] = [Column::Headers, Column::Payload, Column::PayloadBytes];

/// One row of a driver, with columns by position. An error says what is wrong with the column, such as "is
/// not text".
pub trait Values {
    /// Reads a text; `None` if it is NULL.
    fn text(&self, position: usize) -> Result<Option<&str>, &'static str>;

    /// Reads the bytes of a text or binary column.
    fn bytes(&self, position: usize) -> Option<&[u8]>;

    /// Reads an integer of any width, or a boolean.
    fn number(&self, position: usize) -> Result<Option<i64>, &'static str>;

    /// Reads a time; `None` if it is NULL.
    fn time(&self, position: usize) -> Result<Option<Timestamp>, &'static str>;

    /// Whether a text column contains binary data.
    fn is_binary(&self, _position: usize) -> bool {
        false
    }

    /// A readable form of an id that is not text; outcomes use it too.
    fn unreadable_id(&self, _position: usize) -> String {
        String::new()
    }
}

/// Whether to decode the claim of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WithClaim {
    /// The row is only read: no token, no last error.
    No,
    /// The row is claimed, or shown to operators.
    Yes,
}

/// Decodes the rows of one statement. Created once per statement, because it resolves column names to
/// positions.
#[derive(Debug, Clone)]
pub struct RowDecoder {
    positions: [u8; Column::ALL.len()],
}

const ABSENT: u8 = u8::MAX;

impl RowDecoder {
    /// Creates a decoder for columns with these names, in this order. If a name occurs twice, the first
    /// column counts.
    pub fn new<'n>(names: impl IntoIterator<Item = &'n str>) -> Self {
        let mut positions = [ABSENT; Column::ALL.len()];
        for (name, position) in names.into_iter().zip(0..ABSENT) {
            if let Some(column) = Column::named(name)
                && positions[column as usize] == ABSENT
            {
                positions[column as usize] = position;
            }
        }
        Self { positions }
    }

    /// Creates a decoder for rows whose values are found by name: the position of a column is its place in
    /// [`Column::ALL`].
    #[must_use]
    pub fn by_name() -> Self {
        Self::new(Column::ALL.iter().map(|column| column.name()))
    }

    fn position(&self, column: Column) -> Option<usize> {
        Some(self.positions[column as usize]).filter(|position| *position != ABSENT).map(usize::from)
    }

    fn reading<'r, V: Values>(&'r self, values: &'r V) -> Reading<'r, V> {
        Reading { decoder: self, values, wrong: None }
    }

    /// Decodes a pending row for delivery.
    pub fn row(&self, values: &impl Values, claimed: WithClaim) -> Row {
        self.reading(values).row(claimed)
    }

    /// Decodes all fields of a row, for operators.
    pub fn record(&self, values: &impl Values) -> Record {
        let read = self.row(values, WithClaim::Yes);
        let mut reading = self.reading(values);
        Record {
            done_at: reading.time(Column::DoneAt),
            processed_by: reading.owned(Column::ProcessedBy),
            locked_by: reading.owned(Column::LockedBy),
            locked_until: reading.time(Column::LockedUntil),
            ..read.into()
        }
    }

    /// Decodes an item.
    pub fn item(&self, values: &impl Values) -> Item {
        let mut reading = self.reading(values);
        let item = Item {
            id: reading.owned(Column::Id).unwrap_or_default(),
            item_type: reading.owned(Column::Type),
            message_group: reading.owned(Column::MessageGroup),
            payload: reading.owned(Column::Payload),
            status: reading.owned(Column::Status),
            error_message: reading.owned(Column::ErrorMessage),
            // `Item` itself reports a count that cannot be read.
            retry_count: self.number(values, Column::RetryCount),
            created_at: self.time(values, Column::CreatedAt),
            processed_at: self.time(values, Column::ProcessedAt),
            bytes: 0,
            wrong: None,
        };
        if item.created_at.is_none() {
            reading.blame(Column::CreatedAt, "is not a time");
        }
        Item { bytes: item.size(), wrong: reading.wrong, ..item }
    }

    /// The full size of a row whose contents were left out, in bytes; `None` if they were loaded.
    pub fn left_out(&self, values: &impl Values) -> Option<usize> {
        let mut reading = self.reading(values);
        let contents = reading.number(Column::LeftOut).and_then(|bytes| usize::try_from(bytes).ok())?;
        let keys = reading.keys();
        Some(contents.saturating_add(reading.names_size(&keys)))
    }

    /// The full size of an item whose contents were left out, in bytes; `None` if they were loaded.
    pub fn item_left_out(&self, values: &impl Values, item: &Item) -> Option<usize> {
        let contents = usize::try_from(self.number(values, Column::LeftOut)?).ok()?;
        let names = [Some(&item.id), item.item_type.as_ref(), item.message_group.as_ref()];
        Some(contents.saturating_add(names.into_iter().flatten().map(String::len).sum()))
    }

    /// Reads one column; `None` if it is NULL, absent or not a number.
    pub fn number(&self, values: &impl Values, column: Column) -> Option<i64> {
        values.number(self.position(column)?).ok()?
    }

    /// Reads one column; `None` if it is NULL, absent or not a time.
    pub fn time(&self, values: &impl Values, column: Column) -> Option<Timestamp> {
        values.time(self.position(column)?).ok()?
    }

    /// Whether a column has a value.
    pub fn has(&self, values: &impl Values, column: Column) -> bool {
        self.position(column).is_some_and(|position| values.bytes(position).is_some())
    }
}

/// The decoding of one row. It keeps the first problem found.
struct Reading<'r, V> {
    decoder: &'r RowDecoder,
    values: &'r V,
    wrong: Option<Malformed>,
}

impl<'r, V: Values> Reading<'r, V> {
    fn blame(&mut self, column: Column, what: &str) {
        if self.wrong.is_none() {
            self.wrong = Some(Malformed::new(format!("{} {what}", column.name())));
        }
    }

    fn sound<T>(&mut self, column: Column, value: Result<Option<T>, &'static str>) -> Option<T> {
        value.unwrap_or_else(|what| {
            self.blame(column, what);
            None
        })
    }

    fn text(&mut self, column: Column) -> Option<&'r str> {
        let value = self.values.text(self.decoder.position(column)?);
        self.sound(column, value)
    }

    fn owned(&mut self, column: Column) -> Option<String> {
        self.text(column).map(str::to_owned)
    }

    fn number(&mut self, column: Column) -> Option<i64> {
        let value = self.values.number(self.decoder.position(column)?);
        self.sound(column, value)
    }

    fn time(&mut self, column: Column) -> Option<Timestamp> {
        let value = self.values.time(self.decoder.position(column)?);
        self.sound(column, value)
    }

    fn bytes(&self, column: Column) -> Option<&'r [u8]> {
        self.values.bytes(self.decoder.position(column)?)
    }

    fn size(&self, columns: &[Column]) -> usize {
        columns.iter().filter_map(|column| self.bytes(*column)).map(<[u8]>::len).sum()
    }

    fn names_size(&self, keys: &Keys<'_>) -> usize {
        self.size(&NAMES) + keys.aggregate_type.map_or(0, str::len)
    }

    fn id(&mut self) -> EventId {
        if let Some(text) = self.text(Column::EventId) {
            return EventId::from_row(text);
        }
        let position = self.decoder.position(Column::EventId);
        EventId::from_row(position.map(|at| self.values.unreadable_id(at)).unwrap_or_default())
    }

    fn keys(&mut self) -> Keys<'r> {
        Keys {
            aggregate_type: self.text(Column::AggregateType).filter(|name| *name != GLOBAL),
            aggregate_id: self.text(Column::AggregateId),
            message_group: self.text(Column::MessageGroup),
        }
    }

    fn row(mut self, claimed: WithClaim) -> Row {
        let id = self.id();
        let created_at = self.time(Column::CreatedAt).unwrap_or_default();
        let expires_at = self.time(Column::ExpiresAt);
        let keys = self.keys();
        let slot = self.number(Column::Slot).and_then(|slot| i16::try_from(slot).ok());
        let attempts = self.number(Column::Attempts).unwrap_or_default().max(0);
        let row = Row {
            seq: Seq(self.number(Column::Seq).unwrap_or_default()),
            slot: Slot(slot.unwrap_or(i16::MAX)),
            status: self.number(Column::Status).and_then(Status::from_code).unwrap_or(Status::New),
            attempts: u32::try_from(attempts).unwrap_or(u32::MAX),
            created_at,
            available_at: self.time(Column::AvailableAt).unwrap_or_default(),
            expires_at,
            token: Token::default(),
            // A bad last error does not make the event malformed, so it is read separately.
            last_error: self.decoder.reading(self.values).owned(Column::LastError),
            lapsed: false,
            group: keys.group(),
            bytes: self.names_size(&keys) + self.size(&CONTENTS),
            event: Err(Malformed::left_out()),
            id,
        };
        let row = match claimed {
            WithClaim::No => row,
            WithClaim::Yes => self.claim(row),
        };
        Row { event: self.event(&row.id, &keys, created_at, expires_at), ..row }
    }

    /// Adds the fields of a claim.
    fn claim(&mut self, row: Row) -> Row {
        Row {
            token: Token(self.number(Column::LockToken).unwrap_or_default()),
            lapsed: self.decoder.number(self.values, Column::Lapsed).is_some_and(|lapsed| lapsed != 0),
            bytes: row.bytes + self.size(&[Column::LastError]),
            ..row
        }
    }

    fn event(
        &mut self,
        id: &EventId,
        keys: &Keys<'_>,
        created_at: Timestamp,
        expires_at: Option<Timestamp>,
    ) -> Decoded {
        let event_type = self.text(Column::EventType).unwrap_or_default();
        let occurred_at = self.time(Column::OccurredAt).unwrap_or(created_at);
        let mut builder = Event::builder(event_type).occurred_at(occurred_at);
        if let Some(name) = keys.aggregate_type {
            builder = builder.aggregate_type(name);
        }
        if let Some(aggregate_id) = keys.aggregate_id {
            builder = builder.aggregate_id(aggregate_id);
        }
        if let Some(group) = keys.message_group {
            builder = builder.group(group);
        }
        if let Some(tenant) = self.text(Column::TenantId) {
            builder = builder.tenant(tenant);
        }
        if let Some(message) = self.text(Column::MessageId) {
            builder = builder.message_id(message);
        }
        if let Some(correlation) = self.text(Column::CorrelationId) {
            builder = builder.correlation_id(correlation);
        }
        if let Some(due) = self.time(Column::DueAt) {
            builder = builder.due(due);
        }
        if let Some(expires) = expires_at {
            builder = builder.expires(expires);
        }
        if let Some(stored) = self.text(Column::Headers) {
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
        let binary = self.decoder.position(Column::Payload).is_some_and(|at| self.values.is_binary(at));
        let payload_column = if binary { self.bytes(Column::Payload) } else { None };
        if let Some(bytes) = self.bytes(Column::PayloadBytes).or(payload_column) {
            builder.payload_bytes(bytes)
        } else if let Some(text) = self.text(Column::Payload) {
            builder.payload_json(text)
        } else {
            self.blame(Column::Payload, "and payload_bytes are both missing");
            builder
        }
    }
}

/// The fields that determine a row's group.
struct Keys<'a> {
    /// `None` for the global aggregate type.
    aggregate_type: Option<&'a str>,
    aggregate_id: Option<&'a str>,
    message_group: Option<&'a str>,
}

impl Keys<'_> {
    fn group(&self) -> Option<GroupKey> {
        GroupKey::of_columns(self.message_group, self.aggregate_type, self.aggregate_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row of texts; what begins with `#` is a number, `!` is what no column should hold.
    struct Texts<'a>(&'a [Option<&'a str>]);

    impl Values for Texts<'_> {
        fn text(&self, position: usize) -> Result<Option<&str>, &'static str> {
            match self.0[position] {
                Some("!") => Err("is not text"),
                text => Ok(text),
            }
        }

        fn bytes(&self, position: usize) -> Option<&[u8]> {
            self.0[position].map(str::as_bytes)
        }

        fn number(&self, position: usize) -> Result<Option<i64>, &'static str> {
            let number = self.0[position].map(|text| text.trim_start_matches('#').parse());
            number.transpose().map_err(|_| "is not a number")
        }

        fn time(&self, position: usize) -> Result<Option<Timestamp>, &'static str> {
            Ok(self.number(position)?.and_then(|us| Timestamp::from_microsecond(us).ok()))
        }
    }

    #[test]
    fn columns_are_found_by_name_wherever_they_stand() {
        let decoder = RowDecoder::new(["payload", "nobody_knows", "seq", "event_id", "payload"]);
        let row =
            decoder.row(&Texts(&[Some("{}"), Some("x"), Some("#7"), Some("a"), Some("!")]), WithClaim::No);
        assert_eq!((row.seq, row.id.as_str()), (Seq(7), "a"));
        assert_eq!(row.bytes, 3, "the id and the payload");
        assert_eq!(row.slot, Slot(i16::MAX), "an absent column is as NULL");
        assert!(row.event.is_ok());
    }

    #[test]
    fn the_first_thing_that_is_wrong_is_told_and_the_row_is_read_all_the_same() {
        let decoder =
            RowDecoder::new(["seq", "event_id", "message_group", "tenant_id", "last_error", "payload"]);
        let wrong = Texts(&[Some("#7"), Some("a"), Some("g"), Some("!"), Some("!"), None]);
        let row = decoder.row(&wrong, WithClaim::Yes);
        assert_eq!(row.group, Some(GroupKey::new("g")));
        assert_eq!(row.last_error, None);
        assert_eq!(row.event.unwrap_err().to_string(), "tenant_id is not text");
        let fine = Texts(&[Some("#7"), Some("a"), Some("g"), None, Some("!"), Some("{}")]);
        assert!(
            decoder.row(&fine, WithClaim::Yes).event.is_ok(),
            "the last error says nothing about the event"
        );
    }

    #[test]
    fn a_row_without_contents_has_the_bytes_that_were_left_out_and_those_of_its_names() {
        let decoder = RowDecoder::new(["event_id", "event_type", "aggregate_type", "left_out"]);
        let left = |text| decoder.left_out(&Texts(&[Some("ab"), Some("T"), Some(GLOBAL), text]));
        assert_eq!((left(None), left(Some("#100"))), (None, Some(103)));
    }

    #[test]
    fn an_item_tells_what_could_not_be_read() {
        let decoder = RowDecoder::new(["id", "type", "payload", "created_at", "retry_count"]);
        let item = decoder.item(&Texts(&[Some("a"), Some("T"), Some("{}"), Some("#5"), Some("#2")]));
        assert_eq!((item.id.as_str(), item.retry_count, item.bytes), ("a", Some(2), 4));
        assert!(item.wrong.is_none());
        let item = decoder.item(&Texts(&[Some("a"), Some("!"), Some("{}"), None, Some("many")]));
        assert_eq!(item.wrong.unwrap().to_string(), "type is not text");
        let item = decoder.item(&Texts(&[Some("a"), Some("T"), Some("{}"), None, None]));
        assert_eq!(item.wrong.unwrap().to_string(), "created_at is not a time");
    }
}
