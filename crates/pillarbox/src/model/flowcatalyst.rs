//! Items: rows of `outbox_events` or `outbox_dispatch_jobs`, and their conversion from and to events.

use std::borrow::Cow;

use jiff::Timestamp;

use super::{
    Event, EventId, GLOBAL, GroupKey, Invalid, MESSAGE_GROUP_MAX, Malformed, NewRow, Payload, Placement,
    Record, Row, Seq, Slot, Status, TableName, Token, Tsid,
};

/// The usual table of events.
pub const EVENTS: &str = "outbox_events";
/// The usual table of dispatch jobs.
pub const DISPATCH_JOBS: &str = "outbox_dispatch_jobs";

/// The valid types of an item.
const TYPES: [&str; 2] = ["EVENT", "DISPATCH_JOB"];
const PENDING: &str = "PENDING";
const PROCESSING: &str = "PROCESSING";
const COMPLETED: &str = "COMPLETED";
const FAILED: &str = "FAILED";

/// An event as a new item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewItem<'a> {
    /// Column `id`.
    pub id: &'a str,
    /// Column `type`.
    pub item_type: &'a str,
    /// Column `message_group`.
    pub message_group: Option<Cow<'a, str>>,
    /// Column `payload`.
    pub payload: &'a str,
}

impl<'a> NewItem<'a> {
    /// Converts an event. A field without a column in this layout is refused by name. An aggregate with an id
    /// becomes the message group, as it does for delivery.
    pub fn of(event: &'a Event) -> Result<Self, Invalid> {
        let no_column = |field| Invalid::NoColumn { field, layout: "flowcatalyst" };
        let held = [
            ("tenant id", event.tenant_id().is_some()),
            ("message id", event.message_id().is_some()),
            ("correlation id", event.correlation_id().is_some()),
            ("headers", event.headers().iter().next().is_some()),
            ("due time", event.due().is_some()),
            ("expiry time", event.expires().is_some()),
            ("aggregate type", event.aggregate_id().is_none() && event.aggregate_type() != GLOBAL),
        ];
        if let Some((field, _)) = held.into_iter().find(|(_, set)| *set) {
            return Err(no_column(field));
        }
        if !TYPES.contains(&event.event_type()) {
            let reason = "in this layout it is EVENT or DISPATCH_JOB".to_owned();
            return Err(Invalid::Malformed { field: "event type", reason });
        }
        let Payload::Json(payload) = event.payload() else { return Err(no_column("payload bytes")) };
        let id = event.id().as_str();
        Tsid::parse(id).map_err(|_| Invalid::Malformed {
            field: "event id",
            reason:
                "in this layout it is a TSID, 13 characters of Crockford's base 32; leave it out to get one"
                    .to_owned(),
        })?;
        let message_group = match (event.message_group(), event.aggregate_id()) {
            (Some(group), _) => Some(Cow::Borrowed(group)),
            (None, Some(id)) => Some(Cow::Owned(format!("{}/{id}", event.aggregate_type()))),
            (None, None) => None,
        };
        debug_assert!(message_group.as_ref().is_none_or(|group| group.chars().count() <= MESSAGE_GROUP_MAX));
        Ok(Self { id, item_type: event.event_type(), message_group, payload })
    }

    /// Converts the rows to write to a table, or returns what is wrong with the first invalid one.
    pub fn of_rows(rows: &'a [NewRow], table: &TableName) -> Result<Vec<Self>, Invalid> {
        let item = |row: &'a NewRow| {
            if row.placement == Placement::Queue {
                return Err(Invalid::NoColumn { field: "queue", layout: "flowcatalyst" });
            }
            let item = Self::of(&row.event)?;
            item.fits(table).map(|()| item)
        };
        rows.iter().map(item).collect()
    }

    /// Checks that a table is for items of this type. A table with another name accepts both types.
    fn fits(&self, table: &TableName) -> Result<(), Invalid> {
        let wanted = match table.as_str() {
            EVENTS => TYPES[0],
            DISPATCH_JOBS => TYPES[1],
            _ => return Ok(()),
        };
        if self.item_type == wanted {
            return Ok(());
        }
        let reason = format!("the table {} is for {wanted}", table.as_str());
        Err(Invalid::Malformed { field: "event type", reason })
    }
}

/// An item as read. A column that is missing or of another type is `None`, and `wrong` says which.
#[derive(Debug, Clone, Default)]
pub struct Item {
    /// Column `id`.
    pub id: String,
    /// Column `type`.
    pub item_type: Option<String>,
    /// Column `message_group`.
    pub message_group: Option<String>,
    /// Column `payload`.
    pub payload: Option<String>,
    /// Column `status`.
    pub status: Option<String>,
    /// Column `retry_count`.
    pub retry_count: Option<i64>,
    /// Column `created_at`.
    pub created_at: Option<Timestamp>,
    /// Column `processed_at`.
    pub processed_at: Option<Timestamp>,
    /// Column `error_message`.
    pub error_message: Option<String>,
    /// The size that counts against the byte limits of a read.
    pub bytes: usize,
    /// The first problem found.
    pub wrong: Option<Malformed>,
}

impl Item {
    /// Records a problem, unless one was recorded before.
    pub fn blame(&mut self, reason: impl Into<String>) {
        if self.wrong.is_none() {
            self.wrong = Some(Malformed::new(reason));
        }
    }

    /// The size of its loaded texts, in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        let texts = [&self.item_type, &self.message_group, &self.payload, &self.error_message];
        self.id.len() + texts.into_iter().flatten().map(String::len).sum::<usize>()
    }

    /// Marks the item as larger than `most` and therefore not loaded.
    pub fn set_aside(&mut self, bytes: usize, most: usize) {
        (self.bytes, self.wrong) = (0, Some(Malformed::too_large(bytes, most)));
    }

    /// The attempts begun. `retry_count` grows when a retry is requested, attempts when they begin, so a
    /// taken item has one more.
    fn attempts(&self) -> u32 {
        let begun = i64::from(self.status.as_deref() != Some(PENDING));
        let attempts = self.retry_count.unwrap_or_default().max(0).saturating_add(begun);
        u32::try_from(attempts).unwrap_or(u32::MAX)
    }

    /// The status. An unknown status counts as dead, so the item is not delivered.
    fn status_or_retry(&self) -> Status {
        match self.status.as_deref() {
            Some(PENDING | PROCESSING) if self.retry_count.unwrap_or_default() > 0 => Status::Retry,
            Some(PENDING | PROCESSING) => Status::New,
            Some(COMPLETED) => Status::Done,
            _ => Status::Dead,
        }
    }

    fn judge(&mut self) {
        if !self.status.as_deref().is_some_and(|s| [PENDING, PROCESSING, COMPLETED, FAILED].contains(&s)) {
            self.blame("status is none of this layout's");
        }
        if !self.item_type.as_deref().is_some_and(|item_type| TYPES.contains(&item_type)) {
            self.blame("type is neither EVENT nor DISPATCH_JOB");
        }
        if self.payload.is_none() {
            self.blame("payload is missing");
        }
        if self.retry_count.is_none() {
            self.blame("retry_count is missing");
        }
    }

    /// Converts the item to a row for delivery. The token is the time of the take.
    #[must_use]
    pub fn into_row(mut self) -> Row {
        self.judge();
        let id = EventId::from_row(self.id.as_str());
        let (status, attempts) = (self.status_or_retry(), self.attempts());
        let created_at = self.created_at.unwrap_or_default();
        let token = Token(self.processed_at.map_or(0, Timestamp::as_microsecond));
        let event = match self.wrong {
            Some(wrong) => Err(wrong),
            None => {
                let event_type = self.item_type.unwrap_or_default();
                let mut builder = Event::text(event_type, self.payload.unwrap_or_default());
                if let Some(group) = &self.message_group {
                    builder = builder.group(group.as_str());
                }
                Ok(builder.occurred_at(created_at).build_from_row(id.clone()))
            }
        };
        Row {
            seq: number_of(&id),
            id,
            slot: Slot(0),
            status,
            attempts,
            created_at,
            available_at: created_at,
            expires_at: None,
            token,
            last_error: self.error_message,
            lapsed: false,
            group: self.message_group.map(GroupKey::new),
            bytes: self.bytes,
            event,
        }
    }

    /// Converts the item to a record for operators. An ended item has no token, because its time is the time
    /// of its end.
    #[must_use]
    pub fn into_record(self) -> Record {
        let ended = !matches!(self.status.as_deref(), Some(PENDING | PROCESSING));
        let done_at = self.processed_at.filter(|_| ended);
        let row = self.into_row();
        let token = if ended { Token::default() } else { row.token };
        Record { done_at, token, ..row.into() }
    }
}

/// The number of an item, for display: its TSID as a number, or zero if the id is not a TSID.
#[must_use]
pub fn number_of(id: &EventId) -> Seq {
    Seq(Tsid::parse(id.as_str()).map_or(0, |tsid| tsid.to_u64() as i64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Layout, Limits};

    fn limits() -> Limits {
        Limits { layout: Layout::Flowcatalyst, ..Limits::default() }
    }

    /// RLY-003, RLY-004, RLY-005
    #[test]
    fn events_become_items_and_get_a_tsid() {
        let event = Event::text("EVENT", "{}").aggregate("Order", 7).build_within(&limits()).unwrap();
        let item = NewItem::of(&event).unwrap();
        assert_eq!((item.id.len(), item.item_type, item.payload), (13, "EVENT", "{}"));
        assert_eq!(item.message_group.as_deref(), Some("Order/7"));
        assert!(item.fits(&TableName::new(EVENTS).unwrap()).is_ok());
        assert!(item.fits(&TableName::new("letters").unwrap()).is_ok());
        let misplaced = item.fits(&TableName::new(DISPATCH_JOBS).unwrap()).unwrap_err();
        assert_eq!(misplaced.field(), "event type");
        assert!(number_of(event.id()) > Seq(0));
    }

    /// RLY-003
    #[test]
    fn what_has_no_column_is_refused_by_name() {
        let plain = || Event::text("EVENT", "{}");
        for (builder, field) in [
            (plain().tenant("t"), "tenant id"),
            (plain().message_id("m"), "message id"),
            (plain().correlation_id("c"), "correlation id"),
            (plain().header("a", "b"), "headers"),
            (plain().due(std::time::Duration::ZERO), "due time"),
            (plain().expires(std::time::Duration::ZERO), "expiry time"),
            (plain().aggregate_type("Order"), "aggregate type"),
            (Event::bytes("EVENT", [1]), "payload bytes"),
            (Event::text("order.placed", "{}"), "event type"),
            (plain().id("order-7"), "event id"),
        ] {
            assert_eq!(builder.build_within(&limits()).unwrap_err().field(), field);
        }
    }

    /// RLY-006
    #[test]
    fn statuses_read_as_ours_and_unknown_ones_are_set_aside() {
        let item = |status: &str, retry_count| Item {
            id: "0HZXEQ5Y8JY5Z".to_owned(),
            item_type: Some("EVENT".to_owned()),
            payload: Some("{}".to_owned()),
            status: Some(status.to_owned()),
            retry_count: Some(retry_count),
            ..Item::default()
        };
        for (status, retries, reads_as, attempts) in [
            ("PENDING", 0, Status::New, 0),
            ("PENDING", 2, Status::Retry, 2),
            ("PROCESSING", 2, Status::Retry, 3),
            ("COMPLETED", 0, Status::Done, 1),
            ("FAILED", 3, Status::Dead, 4),
        ] {
            let row = item(status, retries).into_row();
            assert_eq!((row.status, row.attempts), (reads_as, attempts), "{status}");
            assert!(row.event.is_ok());
        }
        let odd = item("pending", 0).into_record();
        assert_eq!(odd.status, Status::Dead);
        assert!(odd.event.is_err());
    }
}
