//! Bad input: every field names itself and its bound.

use pillarbox::Event;
use pillarbox::events::{Poller, PollerSettings, PurgeSettings, Purger, WriteError};
use pillarbox::model::{EventBuilder, Invalid};
use std::sync::Arc;
use std::time::Duration;

use crate::kit::{Watched, event};
use crate::poller::Basket;

type Set = fn(EventBuilder, String) -> EventBuilder;

const FIELDS: [(&str, usize, Set); 8] = [
    ("event id", 36, |event, value| event.id(value)),
    ("event type", 255, |_, value| Event::text(value, "{}")),
    ("aggregate type", 64, |event, value| event.aggregate_type(value)),
    ("aggregate id", 128, |event, value| event.aggregate_id(value)),
    ("tenant id", 64, |event, value| event.tenant(value)),
    ("message group", 255, |event, value| event.group(value)),
    ("message id", 255, |event, value| event.message_id(value)),
    ("header name", 255, |event, value| event.header(value, "v")),
];

/// EVT-002
#[test]
fn empty_names_are_refused() {
    for (field, _, set) in FIELDS {
        assert_eq!(set(event("a"), String::new()).build().unwrap_err(), Invalid::Empty { field });
    }
    assert_eq!(event("a").correlation_id("").build().unwrap().correlation_id(), None);
}

/// EVT-002
#[test]
fn names_are_measured_in_characters_and_refused_one_past_their_bound() {
    let correlation: Set = |event, value| event.correlation_id(value);
    for (field, max, set) in FIELDS.into_iter().chain([("correlation id", 255, correlation)]) {
        let fits = "ä".repeat(max);
        set(event("a"), fits.clone()).build().unwrap();
        let error = set(event("a"), fits + "x").build().unwrap_err();
        assert_eq!(error, Invalid::TooLong { field, len: max + 1, max, unit: "characters" });
        assert_eq!(error.field(), field);
    }
}

/// EVT-002
#[test]
fn control_characters_in_names_are_refused_with_their_place() {
    for (field, _, set) in FIELDS {
        for bad in ["a\0", "a\n", "a\u{7f}", "a\u{85}"] {
            let error = set(event("a"), bad.to_owned()).build().unwrap_err();
            assert_eq!(error, Invalid::Character { field, what: "a control character", at: 1 }, "{bad:?}");
        }
    }
}

/// EVT-006, EVT-007
#[test]
fn texts_may_hold_anything_but_nul() {
    event("a").payload_json("\t\u{1}\n").header("k", "\t\n\u{1}").build().unwrap();
    let error = event("a").payload_json("ab\0").build().unwrap_err();
    assert_eq!(error, Invalid::Character { field: "payload", what: "a NUL character", at: 2 });
    let error = event("a").header("k", "\0").build().unwrap_err();
    assert_eq!(error.field(), "header value");
    Event::bytes("t", [0]).build().unwrap();
}

/// EVT-006
#[test]
fn a_second_header_of_the_same_name_replaces_the_first() {
    let event = event("a").header("k", "1").header("K", "2").header("k", "3").build().unwrap();
    assert_eq!(event.headers().iter().collect::<Vec<_>>(), [("K", "2"), ("k", "3")]);
}

/// EVT-006
#[test]
fn headers_are_bounded_together() {
    let error = event("a").header("k", "v".repeat(64 * 1024)).build().unwrap_err();
    assert!(matches!(error, Invalid::TooLong { field: "headers", max: 65_536, .. }), "{error}");
}

/// EVT-030
#[tokio::test]
async fn one_bad_event_of_many_refuses_them_all_and_leaves_the_transaction_usable() {
    let writer = pillarbox::Writer::new(Arc::new(Watched::new()));
    let mut tx = writer.begin().await.unwrap();
    let error = tx.write([event("a"), event("b").tenant("")]).unwrap_err();
    assert!(matches!(error, WriteError::Invalid(Invalid::Empty { field: "tenant id" })));
    assert_eq!(tx.written().count(), 0);
    tx.write(event("c")).unwrap();
    tx.commit().await.unwrap();
    assert_eq!(writer.store().rows().await, 1);
}

/// EVT-161
#[test]
fn pollers_and_purgers_alone_refuse_settings_out_of_range() {
    let poller = |settings| Poller::new(Arc::new(Watched::new()), Arc::new(Basket::default()), settings);
    let none = PollerSettings { batch: 0, ..PollerSettings::default() };
    assert_eq!(poller(none).err().unwrap().to_string(), "poller batch is 0, allowed is 1 to 100000");
    let busy = PollerSettings { interval: Duration::ZERO, ..PollerSettings::default() };
    assert_eq!(poller(busy).err().unwrap().field(), "poller interval");
    let purger = |settings| Purger::new(Arc::new(Watched::new()), settings);
    let none = PurgeSettings { batch: 0, ..PurgeSettings::default() };
    assert_eq!(purger(none).err().unwrap().field(), "purge batch");
    let busy = PurgeSettings { interval: Duration::ZERO, ..PurgeSettings::default() };
    assert_eq!(purger(busy).err().unwrap().field(), "purge interval");
}
