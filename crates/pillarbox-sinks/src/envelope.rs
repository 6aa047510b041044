//! Encodes an event as the body and headers of a request or message, raw or as a CloudEvent.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use pillarbox::Event;
use pillarbox::model::{GroupKey, Payload};
use pillarbox::port::Delivery;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::forwarded_headers::{forwarded_headers, is_visible};

const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";
const OCTETS: &str = "application/octet-stream";
const CLOUDEVENT: &str = "application/cloudevents+json";

/// Characters that CloudEvents percent-encodes in headers: all but visible ASCII, and also quotes and percent
/// signs.
const OUTSIDE_HEADER: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'%');

/// The format of a request or message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
pub enum Format {
    /// The payload alone.
    #[default]
    #[serde(rename = "raw")]
    Raw,
    /// A CloudEvent as a JSON document that contains the payload.
    #[serde(rename = "cloudevents")]
    CloudEventsStructured,
    /// The payload alone, with the attributes of the CloudEvent as headers.
    #[serde(rename = "cloudevents-binary")]
    CloudEventsBinary,
}

/// The protocol binding: how attributes of a CloudEvent are written as headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Binding {
    /// `ce-id`, values percent-encoded.
    Http,
    /// `ce-id`, values percent-encoded.
    Nats,
    /// `ce_id`, values unchanged. Redis uses it too.
    Kafka,
    /// `cloudEvents_id`, values unchanged.
    Amqp,
}

/// An encoded event.
#[derive(Clone, PartialEq, Eq)]
pub struct Encoded {
    /// The body of the request or message.
    pub body: Bytes,
    /// What kind of content the body is.
    pub content_type: String,
    /// All other headers. Names are unique and in lower case, except for the prefix of AMQP.
    pub headers: Vec<(String, String)>,
}

/// Encodes events in one format for one protocol.
#[derive(Debug, Clone)]
pub struct Envelope {
    format: Format,
    binding: Binding,
    source: String,
}

impl Envelope {
    /// An encoder for this format and protocol. `source` is the attribute of CloudEvents.
    pub fn new(format: Format, binding: Binding, source: impl Into<String>) -> Self {
        Self { format, binding, source: source.into() }
    }

    /// Encodes an event. An error is the event's own fault.
    ///
    /// Every format sends the trace context and the event's safe headers as headers, and the payload byte for
    /// byte.
    pub fn encode(&self, delivery: &Delivery) -> Result<Encoded, String> {
        let event = &delivery.event;
        let body = match self.body(event)? {
            Cow::Borrowed(payload) => Bytes::copy_from_slice(payload),
            Cow::Owned(body) => body.into(),
        };
        let mut headers = Vec::new();
        self.each_header(event, |name, value| headers.push((name.to_owned(), value.to_owned())));
        Ok(Encoded { body, content_type: self.content_type(event).to_owned(), headers })
    }

    /// The body: the payload itself, or a JSON document that contains it.
    pub(crate) fn body<'e>(&self, event: &'e Event) -> Result<Cow<'e, [u8]>, String> {
        match self.format {
            Format::Raw | Format::CloudEventsBinary => Ok(event.payload().as_bytes().into()),
            Format::CloudEventsStructured => structured(event, &self.source).map(Cow::Owned),
        }
    }

    /// What kind of content the body is.
    pub(crate) fn content_type<'e>(&self, event: &'e Event) -> &'e str {
        match self.format {
            Format::Raw | Format::CloudEventsBinary => content_type(event),
            Format::CloudEventsStructured => CLOUDEVENT,
        }
    }

    /// Calls `put` for every header except the content type.
    pub(crate) fn each_header(&self, event: &Event, mut put: impl FnMut(&str, &str)) {
        trace(event).iter().for_each(|(name, value)| put(name, value));
        forwarded_headers(event).for_each(|(name, value)| put(&name, &value));
        match self.format {
            Format::Raw => {
                put("pillarbox-event-id", &self.written(event.id().as_str()));
                put("pillarbox-event-type", &self.written(event.event_type()));
            }
            Format::CloudEventsBinary => {
                for (key, value) in attributes(event, &self.source) {
                    put(&format!("{}{key}", self.binding.prefix()), &self.written(&value));
                }
            }
            Format::CloudEventsStructured => {}
        }
    }

    fn written<'v>(&self, value: &'v str) -> Cow<'v, str> {
        match self.binding {
            Binding::Http | Binding::Nats => percent_encoded(value).into(),
            Binding::Kafka | Binding::Amqp => value.into(),
        }
    }
}

impl Binding {
    fn prefix(self) -> &'static str {
        match self {
            Self::Http | Self::Nats => "ce-",
            Self::Kafka => "ce_",
            // Not the prefix `cloudEvents:`, because JMS clients allow no colon in a name.
            Self::Amqp => "cloudEvents_",
        }
    }
}

/// The headers of the trace context in which the event was written.
pub(crate) fn trace(event: &Event) -> Vec<(String, String)> {
    let Some(context) = event.trace_context() else { return Vec::new() };
    let mut headers = vec![("traceparent".to_owned(), context.traceparent().to_owned())];
    if let Some(state) = context.tracestate().filter(|state| is_visible(state)) {
        headers.push(("tracestate".to_owned(), state.to_owned()));
    }
    headers
}

/// A CloudEvent in JSON. A JSON payload is copied into `data` unchanged; any other payload goes to
/// `data_base64`.
pub(crate) fn structured(event: &Event, source: &str) -> Result<Vec<u8>, String> {
    let payload = event.payload().as_bytes();
    let mut out = Vec::with_capacity(payload.len() + 512);
    let mut open = b'{';
    let mut member = |out: &mut Vec<u8>, name: &str, value: &str| {
        out.push(std::mem::replace(&mut open, b','));
        let text = |text: &str| serde_json::to_vec(text).map_err(|e| format!("no JSON form: {e}"));
        out.extend(text(name)?);
        out.push(b':');
        out.extend(text(value)?);
        Ok::<(), String>(())
    };
    for (name, value) in attributes(event, source) {
        member(&mut out, name, &value)?;
    }
    let said = said_type(event);
    let as_json = said.map_or(matches!(event.payload(), Payload::Json(_)), is_json_type) && is_json(payload);
    let content_type = said.unwrap_or_else(|| kind_of(event.payload(), || as_json));
    member(&mut out, "datacontenttype", content_type)?;
    if as_json {
        out.extend_from_slice(b",\"data\":");
        out.extend_from_slice(payload);
    } else {
        member(&mut out, "data_base64", &STANDARD.encode(payload))?;
    }
    out.push(b'}');
    Ok(out)
}

/// The attributes of a CloudEvent, except for `datacontenttype`.
fn attributes(event: &Event, source: &str) -> Vec<(&'static str, String)> {
    let mut attributes = vec![
        ("specversion", "1.0".to_owned()),
        ("id", event.id().as_str().to_owned()),
        ("source", source.to_owned()),
        ("type", event.event_type().to_owned()),
        ("time", event.occurred_at().to_string()),
    ];
    let mut add = |name, value: Option<&str>| {
        let value = value.filter(|value| !value.is_empty());
        attributes.extend(value.map(|value| (name, value.to_owned())));
    };
    add("subject", event.aggregate_id().or(event.message_group()));
    add("partitionkey", GroupKey::of(event).as_ref().map(GroupKey::as_str));
    add("correlationid", event.correlation_id());
    add("tenantid", event.tenant_id());
    let trace = event.trace_context();
    add("traceparent", trace.as_ref().map(|trace| trace.traceparent()));
    add("tracestate", trace.as_ref().and_then(|trace| trace.tracestate()));
    attributes
}

/// The content type from the event's header, or else derived from the payload.
fn content_type(event: &Event) -> &str {
    let payload = event.payload();
    said_type(event).unwrap_or_else(|| kind_of(payload, || is_json(payload.as_bytes())))
}

/// The event's `content-type` header, if it looks like a media type.
fn said_type(event: &Event) -> Option<&str> {
    const TYPE_MAX: usize = 255;
    let said = event.headers().iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    said.map(|(_, value)| value).filter(|value| {
        is_visible(value)
            && value.len() <= TYPE_MAX
            && value.split('/').filter(|part| !part.is_empty()).count() > 1
    })
}

/// The content type of a payload without a header. Stores accept any text as `Json`, so the text is checked.
fn kind_of(payload: &Payload, is_json: impl FnOnce() -> bool) -> &'static str {
    match payload {
        Payload::Json(_) if is_json() => JSON,
        Payload::Json(_) => TEXT,
        Payload::Bytes(_) => OCTETS,
    }
}

fn is_json_type(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence == JSON || essence.ends_with("+json")
}

/// Whether these bytes are one JSON document in UTF-8.
pub(crate) fn is_json(bytes: &[u8]) -> bool {
    // `IgnoredAny` skips strings without checking their UTF-8, so it is checked before.
    std::str::from_utf8(bytes).is_ok_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok())
}

fn percent_encoded(value: &str) -> String {
    utf8_percent_encode(value, OUTSIDE_HEADER).to_string()
}

#[cfg(test)]
mod tests;
