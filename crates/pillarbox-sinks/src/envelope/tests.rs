//! Envelopes as they go out: byte for byte, with their trace, without what must stay behind.

use pillarbox::model::EventBuilder;
use serde_json::{Value, json};

use super::*;

const TRACEPARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const ALL: [Format; 3] = [Format::Raw, Format::CloudEventsStructured, Format::CloudEventsBinary];

fn placed(payload: &str) -> EventBuilder {
    Event::text("orders.placed", payload)
        .id("e-1")
        .aggregate("order", "7")
        .occurred_at("2026-11-16T10:00:00.25Z".parse().unwrap())
        .header("traceparent", TRACEPARENT)
        .header("tracestate", "a=1")
        .header("authorization", "s3cret")
        .header("x-region", "eu")
}

fn delivery(builder: EventBuilder) -> Delivery {
    let event = builder.build().unwrap();
    Delivery::first(event)
}

fn encode(format: Format, binding: Binding, builder: EventBuilder) -> Encoded {
    Envelope::new(format, binding, "shop").encode(&delivery(builder)).unwrap()
}

fn header<'e>(encoded: &'e Encoded, name: &str) -> Option<&'e str> {
    encoded.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

/// PBX-020, PBX-023
#[test]
fn every_format_carries_the_trace_and_no_authorization() {
    for format in ALL {
        let encoded = encode(format, Binding::Http, placed("{}"));
        assert_eq!(header(&encoded, "traceparent"), Some(TRACEPARENT));
        assert_eq!(header(&encoded, "tracestate"), Some("a=1"));
        assert_eq!(header(&encoded, "x-region"), Some("eu"));
        assert_eq!(header(&encoded, "authorization"), None);
        let mut names: Vec<_> = encoded.headers.iter().map(|(name, _)| name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), encoded.headers.len(), "no name twice");
    }
}

#[test]
fn a_raw_event_is_its_payload() {
    let odd = " {\"b\" : 1.50, \"a\":\"\\u00fc\", \"a\":2}\n";
    let encoded = encode(Format::Raw, Binding::Kafka, placed(odd));
    assert_eq!(encoded.body, odd.as_bytes());
    assert_eq!(encoded.content_type, "application/json");
    assert_eq!(header(&encoded, "pillarbox-event-id"), Some("e-1"));
    assert_eq!(header(&encoded, "pillarbox-event-type"), Some("orders.placed"));
    let bytes = encode(Format::Raw, Binding::Kafka, Event::bytes("t", [0, 255]));
    assert_eq!((bytes.body.as_ref(), bytes.content_type.as_str()), (&[0, 255][..], OCTETS));
}

#[test]
fn a_structured_event_holds_the_payload_untouched() {
    let odd = "{\"b\" : 1.50, \"a\":2, \"a\":3}";
    let encoded = encode(Format::CloudEventsStructured, Binding::Http, placed(odd).tenant("acme"));
    assert_eq!(encoded.content_type, "application/cloudevents+json");
    let text = std::str::from_utf8(&encoded.body).unwrap();
    assert!(text.ends_with(&format!(",\"data\":{odd}}}")), "{text}");
    let mut value: Value = serde_json::from_str(text).unwrap();
    value.as_object_mut().unwrap().remove("data");
    let expected = json!({
        "specversion": "1.0", "id": "e-1", "source": "shop", "type": "orders.placed", "subject": "7",
        "time": "2026-11-16T10:00:00.25Z", "partitionkey": "order/7", "tenantid": "acme",
        "traceparent": TRACEPARENT, "tracestate": "a=1", "datacontenttype": "application/json",
    });
    assert_eq!(value, expected);
}

#[test]
fn what_is_not_json_goes_into_a_structured_event_as_base64() {
    for (builder, base64, kind) in [
        (Event::bytes("t", [0, 255]), "AP8=", OCTETS),
        (Event::text("t", "{\"a\":"), "eyJhIjo=", TEXT),
        (Event::text("t", "{\"a\":").header("content-type", JSON), "eyJhIjo=", JSON),
        (Event::bytes("t", *b"<a/>").header("Content-Type", "text/xml"), "PGEvPg==", "text/xml"),
    ] {
        let encoded = encode(Format::CloudEventsStructured, Binding::Http, builder);
        let value: Value = serde_json::from_slice(&encoded.body).unwrap();
        assert_eq!(value["data_base64"], base64);
        assert_eq!(value["datacontenttype"], kind);
        assert!(value.get("data").is_none());
    }
}

/// PBX-054
#[test]
fn text_that_is_not_json_is_not_declared_to_be() {
    let kind = |format, builder| encode(format, Binding::Http, builder).content_type;
    for format in [Format::Raw, Format::CloudEventsBinary] {
        for (text, expected) in [("hello world", TEXT), ("", TEXT), ("{} {}", TEXT), (" [1] ", JSON)] {
            assert_eq!(kind(format, Event::text("t", text)), expected, "{text:?}");
        }
        let said = Event::text("t", "hello").header("content-type", "text/csv");
        assert_eq!(kind(format, said), "text/csv");
        assert_eq!(kind(format, Event::bytes("t", *b"[1]")), OCTETS);
    }
}

#[test]
fn bytes_that_say_they_are_json_are_data_if_they_are() {
    let json = |bytes: &[u8]| Event::bytes("t", bytes).header("content-type", "application/vnd.a+json; v=1");
    let encoded = encode(Format::CloudEventsStructured, Binding::Http, json(b"[1]"));
    assert_eq!(serde_json::from_slice::<Value>(&encoded.body).unwrap()["data"], json!([1]));
    let encoded = encode(Format::CloudEventsStructured, Binding::Http, json(b"\"\xff\""));
    assert_eq!(serde_json::from_slice::<Value>(&encoded.body).unwrap()["data_base64"], "Iv8i");
}

#[test]
fn a_binary_event_has_its_attributes_as_headers_in_the_way_of_the_protocol() {
    let odd = || Event::text("ü \"5%\"", "{}").id("e-1").group("g");
    for (binding, prefix, kind) in [
        (Binding::Http, "ce-", "%C3%BC%20%225%25%22"),
        (Binding::Nats, "ce-", "%C3%BC%20%225%25%22"),
        (Binding::Kafka, "ce_", "ü \"5%\""),
        (Binding::Amqp, "cloudEvents_", "ü \"5%\""),
    ] {
        let encoded = encode(Format::CloudEventsBinary, binding, odd());
        let attribute = |name: &str| header(&encoded, &format!("{prefix}{name}"));
        assert_eq!(attribute("id"), Some("e-1"));
        assert_eq!(attribute("specversion"), Some("1.0"));
        assert_eq!(attribute("type"), Some(kind));
        assert_eq!(attribute("subject"), Some("g"));
        assert_eq!(encoded.body, "{}");
        assert_eq!(encoded.content_type, "application/json");
    }
}

#[test]
fn formats_have_names() {
    for (name, format) in ["raw", "cloudevents", "cloudevents-binary"].into_iter().zip(ALL) {
        assert_eq!(serde_json::from_value::<Format>(json!(name)).unwrap(), format);
    }
}

#[test]
fn a_content_type_that_is_none_is_not_passed_on() {
    for bad in ["", "text", "a/b\r\nc: d", "/"] {
        let encoded = encode(Format::Raw, Binding::Http, Event::text("t", "{}").header("content-type", bad));
        assert_eq!(encoded.content_type, "application/json", "{bad:?}");
    }
}
