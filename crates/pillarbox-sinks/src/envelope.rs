//! Envelopes: how an event is put into a request or message, raw or as a CloudEvent.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use pillarbox::Event;
use pillarbox::model::{GroupKey, Payload};
use pillarbox::port::Delivery;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::carried::{carried, is_visible};

const JSON: &str = "application/json";
const OCTETS: &str = "application/octet-stream";
const CLOUDEVENT: &str = "application/cloudevents+json";

/// How an event is put into a request or message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
pub enum Format {
    /// The payload alone.
    #[default]
    #[serde(rename = "raw")]
    Raw,
    /// A CloudEvent in JSON, the payload inside it.
    #[serde(rename = "cloudevents")]
    CloudEventsStructured,
    /// The payload alone, the attributes of the CloudEvent as headers.
    #[serde(rename = "cloudevents-binary")]
    CloudEventsBinary,
}

/// How a protocol writes the attributes of a CloudEvent as headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Binding {
    /// `ce-id`, values percent-encoded.
    Http,
    /// `ce-id`, values percent-encoded.
    Nats,
    /// `ce_id`, values as they are; for Redis too.
    Kafka,
    /// `cloudEvents_id`, values as they are.
    Amqp,
}

/// An event, ready to be sent.
#[derive(Clone, PartialEq, Eq)]
pub struct Encoded {
    /// The body.
    pub body: Bytes,
    /// What kind of content the body is.
    pub content_type: String,
    /// The headers besides, names in lower case but for the prefix of AMQP; no name twice.
    pub headers: Vec<(String, String)>,
}

/// Puts events into envelopes.
#[derive(Debug, Clone)]
pub struct Envelope {
    format: Format,
    binding: Binding,
    source: String,
}

impl Envelope {
    /// Envelopes of this format; `source` is the attribute of CloudEvents.
    pub fn new(format: Format, binding: Binding, source: impl Into<String>) -> Self {
        Self { format, binding, source: source.into() }
    }

    /// The envelope of an event; an error is the event's own fault.
    ///
    /// Whatever the format, trace context and the event's safe headers go as headers, and the payload byte for byte.
    pub fn encode(&self, delivery: &Delivery) -> Result<Encoded, String> {
        let event = &delivery.event;
        let mut headers = trace(event);
        headers.extend(carried(event));
        let payload = || Bytes::copy_from_slice(event.payload().as_bytes());
        match self.format {
            Format::Raw => {
                headers.push(("pillarbox-event-id".to_owned(), self.written(event.id().as_str())));
                headers.push(("pillarbox-event-type".to_owned(), self.written(event.event_type())));
                Ok(Encoded { body: payload(), content_type: content_type(event), headers })
            }
            Format::CloudEventsBinary => {
                let attributes = attributes(event, &self.source);
                let name = |name| format!("{}{name}", self.binding.prefix());
                headers.extend(attributes.iter().map(|(key, value)| (name(key), self.written(value))));
                Ok(Encoded { body: payload(), content_type: content_type(event), headers })
            }
            Format::CloudEventsStructured => {
                let body = structured(event, &self.source)?;
                Ok(Encoded { body: body.into(), content_type: CLOUDEVENT.to_owned(), headers })
            }
        }
    }

    fn written(&self, value: &str) -> String {
        match self.binding {
            Binding::Http | Binding::Nats => percent_encoded(value),
            Binding::Kafka | Binding::Amqp => value.to_owned(),
        }
    }
}

impl Binding {
    fn prefix(self) -> &'static str {
        match self {
            Self::Http | Self::Nats => "ce-",
            Self::Kafka => "ce_",
            // The prefix with a colon is no name for clients of JMS.
            Self::Amqp => "cloudEvents_",
        }
    }
}

/// The trace an event was written in, as headers.
pub(crate) fn trace(event: &Event) -> Vec<(String, String)> {
    let Some(context) = event.trace_context() else { return Vec::new() };
    let mut headers = vec![("traceparent".to_owned(), context.traceparent().to_owned())];
    if let Some(state) = context.tracestate().filter(|state| is_visible(state)) {
        headers.push(("tracestate".to_owned(), state.to_owned()));
    }
    headers
}

/// A CloudEvent in JSON. What is JSON stands in `data` as it was written, anything else in `data_base64`.
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
    let content_type = content_type(event);
    let says_json = is_json_type(&content_type);
    member(&mut out, "datacontenttype", &content_type)?;
    if says_json && is_json(payload) {
        out.extend_from_slice(b",\"data\":");
        out.extend_from_slice(payload);
    } else {
        member(&mut out, "data_base64", &STANDARD.encode(payload))?;
    }
    out.push(b'}');
    Ok(out)
}

/// The attributes of a CloudEvent but for the kind of its data.
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

/// What the event says its payload is, else what its kind is.
fn content_type(event: &Event) -> String {
    const TYPE_MAX: usize = 255;
    let said = event.headers().iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    let said = said.map(|(_, value)| value).filter(|value| {
        is_visible(value)
            && value.len() <= TYPE_MAX
            && value.split('/').filter(|part| !part.is_empty()).count() > 1
    });
    let kind = match event.payload() {
        Payload::Json(_) => JSON,
        Payload::Bytes(_) => OCTETS,
    };
    said.unwrap_or(kind).to_owned()
}

fn is_json_type(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence == JSON || essence.ends_with("+json")
}

/// Whether these bytes are one JSON text.
pub(crate) fn is_json(bytes: &[u8]) -> bool {
    // What is ignored is not looked at for UTF-8.
    std::str::from_utf8(bytes).is_ok_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok())
}

/// As CloudEvents asks for in headers: visible ASCII but for quotes and percents stays, the bytes of all else are encoded.
fn percent_encoded(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for byte in value.bytes() {
        if matches!(byte, b'!'..=b'~') && !matches!(byte, b'"' | b'%') {
            out.push(char::from(byte));
        } else {
            // Writing to a string does not fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests;
