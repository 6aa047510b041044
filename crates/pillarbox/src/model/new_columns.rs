//! The columns of a new row, listed once for the insert statements of every store.

use std::borrow::Cow;
use std::fmt;

use jiff::Timestamp;

use super::{Event, Lane, NewRow, Payload, Placement, When};

type Text = for<'e> fn(&'e Event) -> Option<Cow<'e, str>>;

/// The text columns of a new row and their values. Item tables have the first six, so their statements can
/// name these by position.
const TEXTS: [(&str, Text); 10] = [
    ("event_id", |event| Some(event.id().as_str().into())),
    ("event_type", |event| Some(event.event_type().into())),
    ("aggregate_type", |event| Some(event.aggregate_type().into())),
    ("aggregate_id", |event| event.aggregate_id().map(Cow::from)),
    ("message_group", |event| event.message_group().map(Cow::from)),
    ("payload", |event| match event.payload() {
        Payload::Json(text) => Some((&**text).into()),
        Payload::Bytes(_) => None,
    }),
    ("headers", |event| event.headers().to_stored().map(Cow::from)),
    ("tenant_id", |event| event.tenant_id().map(Cow::from)),
    ("message_id", |event| event.message_id().map(Cow::from)),
    ("correlation_id", |event| event.correlation_id().map(Cow::from)),
];

/// The values that an insert sets. Numbers, slots and times of the database are not among them.
pub struct NewColumns<'a> {
    /// The event.
    pub event: &'a Event,
    /// The values of the text columns, in the order of [`NewColumns::text_names`].
    pub texts: [Option<Cow<'a, str>>; TEXTS.len()],
    /// The payload, if it is not text.
    pub payload_bytes: Option<&'a [u8]>,
    /// The lane that the writer chose. A row that is not due yet goes to lane −1 instead, unless it is in the
    /// queue.
    pub lane: Option<Lane>,
    /// When the event happened.
    pub occurred_at: Timestamp,
    /// When the row is due.
    pub due: Option<When>,
    /// When the event expires.
    pub expires: Option<When>,
}

impl<'a> NewColumns<'a> {
    /// The values of a new row.
    #[must_use]
    pub fn new(row: &'a NewRow) -> Self {
        let event = &row.event;
        Self {
            event,
            texts: TEXTS.map(|(_, value)| value(event)),
            payload_bytes: match event.payload() {
                Payload::Json(_) => None,
                Payload::Bytes(bytes) => Some(bytes),
            },
            lane: match row.placement {
                Placement::Queue => Some(Lane::QUEUE),
                Placement::Lane(lane) => Some(lane),
                Placement::Slot => None,
            },
            occurred_at: event.occurred_at(),
            due: event.due(),
            expires: event.expires(),
        }
    }

    /// The values of new rows.
    #[must_use]
    pub fn of_all(rows: &'a [NewRow]) -> Vec<Self> {
        rows.iter().map(Self::new).collect()
    }

    /// Whether the row neither waits nor expires, as nearly every row.
    #[must_use]
    pub fn is_immediate(&self) -> bool {
        self.due.is_none() && self.expires.is_none()
    }

    /// The names of the text columns, in the order of the insert statements.
    pub fn text_names() -> impl ExactSizeIterator<Item = &'static str> + Clone {
        TEXTS.iter().map(|(name, _)| *name)
    }

    /// The text columns as a part of a statement: `each` gets the position, from zero, and the name.
    pub fn text_list(each: impl Fn(usize, &str) -> String) -> String {
        Self::text_names().enumerate().map(|(place, name)| each(place, name)).collect::<Vec<_>>().join(", ")
    }
}

/// Shows the event's id only: payloads never reach a log.
impl fmt::Debug for NewColumns<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NewColumns").field(self.event.id()).finish()
    }
}
