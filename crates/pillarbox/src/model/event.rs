//! The event: an immutable envelope that is cheap to clone.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::limits::{self, Limits};
use super::read_json::read_json;
use super::trace::{TRACEPARENT, TRACESTATE};
use super::when::micros;
use super::{
    AGGREGATE_ID_MAX, AGGREGATE_TYPE_MAX, AggregateType, CORRELATION_ID_MAX, EVENT_TYPE_MAX, EventId,
    EventType, GLOBAL, Headers, Invalid, MESSAGE_GROUP_MAX, MESSAGE_ID_MAX, Payload, TENANT_ID_MAX,
    TraceContext, When,
};

/// One event. It is immutable, and clones share one allocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event(Arc<Envelope>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Envelope {
    id: EventId,
    fields: Fields,
    payload: Payload,
    occurred_at: Timestamp,
}

/// The fields that an event and its builder share.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Fields {
    event_type: Cow<'static, str>,
    aggregate_type: Cow<'static, str>,
    aggregate_id: Option<String>,
    tenant_id: Option<String>,
    message_group: Option<String>,
    message_id: Option<String>,
    correlation_id: Option<String>,
    headers: Headers,
    due: Option<When>,
    expires: Option<When>,
}

impl Event {
    /// Returns a builder for an event of this type.
    pub fn builder(event_type: impl EventType) -> EventBuilder {
        EventBuilder::new(event_type.name())
    }

    /// Returns a builder with this value as JSON payload. The value is serialised here, once.
    pub fn json<T: Serialize + ?Sized>(
        event_type: impl EventType,
        payload: &T,
    ) -> Result<EventBuilder, Invalid> {
        let text = serde_json::to_string(payload)
            .map_err(|e| Invalid::Malformed { field: "payload", reason: format!("no JSON form: {e}") })?;
        Ok(Self::builder(event_type).payload_json(text))
    }

    /// Returns a builder with JSON text as payload. The text is neither parsed nor changed.
    pub fn text(event_type: impl EventType, json: impl Into<String>) -> EventBuilder {
        Self::builder(event_type).payload_json(json)
    }

    /// Returns a builder with raw bytes as payload.
    pub fn bytes(event_type: impl EventType, payload: impl Into<Vec<u8>>) -> EventBuilder {
        Self::builder(event_type).payload_bytes(payload)
    }

    /// The id.
    #[must_use]
    pub fn id(&self) -> &EventId {
        &self.0.id
    }

    /// The event type.
    #[must_use]
    pub fn event_type(&self) -> &str {
        &self.0.fields.event_type
    }

    /// The aggregate type; `__GLOBAL__` if none was set.
    #[must_use]
    pub fn aggregate_type(&self) -> &str {
        &self.0.fields.aggregate_type
    }

    /// The aggregate id.
    #[must_use]
    pub fn aggregate_id(&self) -> Option<&str> {
        self.0.fields.aggregate_id.as_deref()
    }

    /// The tenant. It is passed through and never used as a filter.
    #[must_use]
    pub fn tenant_id(&self) -> Option<&str> {
        self.0.fields.tenant_id.as_deref()
    }

    /// The message group, if set; it takes precedence over the aggregate as group.
    #[must_use]
    pub fn message_group(&self) -> Option<&str> {
        self.0.fields.message_group.as_deref()
    }

    /// The logical id: writing the same message id twice adds one event.
    #[must_use]
    pub fn message_id(&self) -> Option<&str> {
        self.0.fields.message_id.as_deref()
    }

    /// The id that connects related events.
    #[must_use]
    pub fn correlation_id(&self) -> Option<&str> {
        self.0.fields.correlation_id.as_deref()
    }

    /// The headers.
    #[must_use]
    pub fn headers(&self) -> &Headers {
        &self.0.fields.headers
    }

    /// The payload.
    #[must_use]
    pub fn payload(&self) -> &Payload {
        &self.0.payload
    }

    /// Deserialises the payload. An error names the field and what was expected of it, never the content.
    pub fn json_as<T: DeserializeOwned>(&self) -> Result<T, Invalid> {
        read_json(self.0.payload.as_bytes())
    }

    /// When the event happened.
    #[must_use]
    pub fn occurred_at(&self) -> Timestamp {
        self.0.occurred_at
    }

    /// The earliest time of delivery.
    #[must_use]
    pub fn due(&self) -> Option<When> {
        self.0.fields.due
    }

    /// The latest time of delivery.
    #[must_use]
    pub fn expires(&self) -> Option<When> {
        self.0.fields.expires
    }

    /// The trace context in the headers, if there is one.
    #[must_use]
    pub fn trace_context(&self) -> Option<TraceContext> {
        TraceContext::from_headers(&self.0.fields.headers)
    }

    /// Returns a builder with all fields of this event, for interceptors that change events.
    pub fn to_builder(&self) -> EventBuilder {
        let payload = match self.0.payload.clone() {
            Payload::Json(text) => (Some(text), None),
            Payload::Bytes(bytes) => (None, Some(bytes)),
        };
        EventBuilder {
            id: Some(self.0.id.as_str().to_owned()),
            fields: self.0.fields.clone(),
            json: payload.0,
            bytes: payload.1,
            occurred_at: Some(self.0.occurred_at),
        }
    }

    /// Checks an event that was built under other limits.
    pub(crate) fn check(&self, limits: &Limits) -> Result<(), Invalid> {
        check_payload(&self.0.payload, limits)?;
        self.0.fields.headers.validate(limits)?;
        limits.layout.check(self)
    }

    /// The approximate size in memory, in bytes; buffers are limited by it.
    #[must_use]
    pub fn weight(&self) -> usize {
        const FIXED: usize = 256;
        FIXED + self.names_size() + self.0.fields.headers.weight() + self.0.payload.size()
    }

    /// The stored size of its texts, headers and payload, in bytes. It counts against the byte limits of a
    /// read.
    #[must_use]
    pub fn size(&self) -> usize {
        let headers = self.0.fields.headers.to_stored().map_or(0, |headers| headers.len());
        self.names_size() + headers + self.0.payload.size()
    }

    fn names_size(&self) -> usize {
        let fields = &self.0.fields;
        let names = [
            Some(self.0.id.as_str()),
            Some(&fields.event_type),
            Some(&*fields.aggregate_type).filter(|name| *name != GLOBAL),
            fields.aggregate_id.as_deref(),
            fields.tenant_id.as_deref(),
            fields.message_group.as_deref(),
            fields.message_id.as_deref(),
            fields.correlation_id.as_deref(),
        ];
        names.into_iter().flatten().map(str::len).sum()
    }
}

/// Builder of an event; `build` checks all fields.
#[derive(Clone)]
#[must_use = "a builder does nothing until it is written or built"]
pub struct EventBuilder {
    id: Option<String>,
    fields: Fields,
    json: Option<Box<str>>,
    bytes: Option<Box<[u8]>>,
    occurred_at: Option<Timestamp>,
}

impl EventBuilder {
    fn new(event_type: Cow<'static, str>) -> Self {
        let fields = Fields { event_type, aggregate_type: Cow::Borrowed(GLOBAL), ..Fields::default() };
        Self { id: None, fields, json: None, bytes: None, occurred_at: None }
    }

    /// Sets the id. Default: a monotonic ULID, or a TSID if the layout requires one.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Sets the aggregate that the event is about. Type and id form the group, unless a message group is set.
    pub fn aggregate(self, aggregate_type: impl AggregateType, id: impl ToString) -> Self {
        self.aggregate_type(aggregate_type).aggregate_id(id)
    }

    setters! {
        /// Sets the type of the aggregate.
        aggregate_type(aggregate_type: impl AggregateType) => fields.aggregate_type = aggregate_type.name();
        /// Sets the id of the aggregate.
        aggregate_id(id: impl ToString) => fields.aggregate_id = Some(id.to_string());
        /// Sets the tenant, which is passed through.
        tenant(id: impl Into<String>) => fields.tenant_id = Some(id.into());
        /// Sets the message group. Events of one group are delivered in order where order is kept.
        group(group: impl Into<String>) => fields.message_group = Some(group.into());
        /// Sets the logical id. A second write with the same message id adds no event.
        message_id(id: impl Into<String>) => fields.message_id = Some(id.into());
        /// Sets the id that connects related events. An empty id counts as none.
        correlation_id(id: impl Into<String>) => fields.correlation_id = Some(id.into()).filter(|id| !id.is_empty());
    }

    /// Sets a header. It replaces a header of the same name.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.fields.headers.insert(name.into(), value.into());
        self
    }

    /// Whether a header of this name is set.
    #[must_use]
    pub fn has_header(&self, name: &str) -> bool {
        self.fields.headers.get(name).is_some()
    }

    /// Sets the trace context, as headers.
    pub fn trace_context(self, context: &TraceContext) -> Self {
        let builder = self.header(TRACEPARENT, context.traceparent());
        match context.tracestate() {
            Some(state) => builder.header(TRACESTATE, state),
            None => builder,
        }
    }

    setters! {
        /// Sets JSON text as payload. The text is neither parsed nor changed.
        payload_json(json: impl Into<String>) => json = Some(json.into().into_boxed_str());
        /// Sets raw bytes as payload.
        payload_bytes(bytes: impl Into<Vec<u8>>) => bytes = Some(bytes.into().into_boxed_slice());
        /// Sets when the event happened. Default: now.
        occurred_at(at: Timestamp) => occurred_at = Some(at);
        /// Sets the earliest time of delivery. When it is due, the event goes to the end of its group.
        due(when: impl Into<When>) => fields.due = Some(when.into());
        /// Sets the latest time of delivery. After it, the event becomes dead, with the reason.
        expires(when: impl Into<When>) => fields.expires = Some(when.into());
    }

    /// Checks every field against the default limits and builds the event.
    pub fn build(self) -> Result<Event, Invalid> {
        self.build_within(&Limits::default())
    }

    /// Checks every field against these limits and builds the event.
    pub fn build_within(mut self, limits: &Limits) -> Result<Event, Invalid> {
        self.check_names()?;
        self.fields.headers.validate(limits)?;
        let payload = self.checked_payload(limits)?;
        let id = match self.id {
            Some(id) => EventId::new(id)?,
            None => limits.layout.new_id(),
        };
        let (due, expires) = (self.fields.due.map(whole_micros), self.fields.expires.map(whole_micros));
        let event = Event(Arc::new(Envelope {
            id,
            fields: Fields { due, expires, ..self.fields },
            payload,
            occurred_at: micros(self.occurred_at.unwrap_or_else(Timestamp::now)),
        }));
        limits.layout.check(&event)?;
        Ok(event)
    }

    /// Builds the event of a stored row, without checks.
    #[doc(hidden)]
    pub fn build_from_row(self, id: EventId) -> Event {
        let payload = match (self.json, self.bytes) {
            (_, Some(bytes)) => Payload::Bytes(bytes),
            (json, None) => Payload::Json(json.unwrap_or_default()),
        };
        let occurred_at = self.occurred_at.unwrap_or_default();
        Event(Arc::new(Envelope { id, fields: self.fields, payload, occurred_at }))
    }

    /// Replaces all headers; for stores that read rows.
    #[doc(hidden)]
    pub fn headers(mut self, headers: Headers) -> Self {
        self.fields.headers = headers;
        self
    }

    fn check_names(&self) -> Result<(), Invalid> {
        limits::name("event type", &self.fields.event_type, EVENT_TYPE_MAX)?;
        limits::name("aggregate type", &self.fields.aggregate_type, AGGREGATE_TYPE_MAX)?;
        for (field, value, max) in [
            ("aggregate id", &self.fields.aggregate_id, AGGREGATE_ID_MAX),
            ("tenant id", &self.fields.tenant_id, TENANT_ID_MAX),
            ("message group", &self.fields.message_group, MESSAGE_GROUP_MAX),
            ("message id", &self.fields.message_id, MESSAGE_ID_MAX),
            ("correlation id", &self.fields.correlation_id, CORRELATION_ID_MAX),
        ] {
            if let Some(value) = value {
                limits::name(field, value, max)?;
            }
        }
        Ok(())
    }

    fn checked_payload(&mut self, limits: &Limits) -> Result<Payload, Invalid> {
        let payload = match (self.json.take(), self.bytes.take()) {
            (Some(_), Some(_)) => {
                return Err(Invalid::Both { first: "payload json", second: "payload bytes" });
            }
            (None, None) => {
                return Err(Invalid::Missing { field: "payload", hint: "set payload_json or payload_bytes" });
            }
            (Some(json), None) => Payload::Json(json),
            (None, Some(bytes)) => Payload::Bytes(bytes),
        };
        check_payload(&payload, limits)?;
        Ok(payload)
    }
}

fn check_payload(payload: &Payload, limits: &Limits) -> Result<(), Invalid> {
    if payload.size() > limits.payload {
        let (len, max) = (payload.size(), limits.payload);
        return Err(Invalid::TooLong { field: "payload", len, max, unit: "bytes" });
    }
    match payload {
        Payload::Json(text) => limits::text("payload", text, limits),
        Payload::Bytes(_) => Ok(()),
    }
}

/// Shows type, keys and sizes only: payloads never reach a log.
impl fmt::Debug for EventBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventBuilder")
            .field("id", &self.id)
            .field("event_type", &self.fields.event_type)
            .field("aggregate_type", &self.fields.aggregate_type)
            .field("aggregate_id", &self.fields.aggregate_id)
            .field("headers", &self.fields.headers)
            .field("json_bytes", &self.json.as_ref().map(|json| json.len()))
            .field("raw_bytes", &self.bytes.as_ref().map(|bytes| bytes.len()))
            .finish_non_exhaustive()
    }
}

fn whole_micros(when: When) -> When {
    match when {
        When::At(at) => When::At(micros(at)),
        When::In(after) => When::In(after),
    }
}
