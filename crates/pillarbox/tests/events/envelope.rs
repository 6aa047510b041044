//! The envelope: what it holds by default, what it refuses, and that it comes out as it went in.

use jiff::Timestamp;
use pillarbox::model::{GLOBAL, Invalid, PAYLOAD_MAX, Payload, Status};
use pillarbox::{AggregateType, Event, EventType, Global, Outbox, Writer};
use std::sync::Arc;

use crate::kit::{Seen, Watched, event, seen::commit};

#[derive(EventType)]
#[event_type(rename_all = "dot.case")]
enum OrderEvent {
    OrderPlaced,
}

#[derive(AggregateType)]
struct Order;

/// EVT-001, EVT-003, EVT-004, EVT-005, EVT-006
#[test]
fn what_is_not_set_has_its_default() {
    let before = Timestamp::now();
    let event = Event::text("t", "{}").build().unwrap();
    assert_eq!(event.id().as_str().len(), 26);
    assert!(event.occurred_at().as_microsecond() >= before.as_microsecond());
    assert!(event.occurred_at() <= Timestamp::now());
    assert_eq!((event.aggregate_type(), GLOBAL), ("__GLOBAL__", "__GLOBAL__"));
    assert_eq!((event.aggregate_id(), event.tenant_id()), (None, None));
    assert!(event.headers().is_empty());
}

/// EVT-001, EVT-003, EVT-004, EVT-005
#[test]
fn what_is_set_is_kept() {
    let at: Timestamp = "2026-01-02T03:04:05.678901Z".parse().unwrap();
    let event = Event::text("t", "{}").id("mine").occurred_at(at).aggregate(Order, 7).tenant("acme").build();
    let event = event.unwrap();
    assert_eq!((event.id().as_str(), event.occurred_at()), ("mine", at));
    assert_eq!((event.aggregate_type(), event.aggregate_id()), ("Order", Some("7")));
    assert_eq!(event.tenant_id(), Some("acme"));
}

/// EVT-001
#[test]
fn default_ids_of_built_events_sort_as_they_were_made() {
    let ids: Vec<_> = (0..2_000).map(|_| Event::text("t", "{}").build().unwrap().id().clone()).collect();
    assert!(ids.is_sorted_by(|a, b| a < b));
}

/// EVT-007
#[test]
fn exactly_one_payload_is_needed() {
    assert!(matches!(Event::builder("t").build(), Err(Invalid::Missing { field: "payload", .. })));
    let both = Event::text("t", "{}").payload_bytes([1]).build().unwrap_err();
    assert_eq!(both.to_string(), "payload json and payload bytes are both set, exactly one is allowed");
    assert_eq!(Event::bytes("t", []).build().unwrap().payload().size(), 0, "no bytes are a payload too");
}

/// EVT-008
#[test]
fn a_payload_of_exactly_one_mebibyte_passes_and_one_byte_more_does_not() {
    assert_eq!(PAYLOAD_MAX, 1_048_576);
    Event::bytes("t", vec![0; PAYLOAD_MAX]).build().unwrap();
    Event::text("t", "x".repeat(PAYLOAD_MAX)).build().unwrap();
    let wide = Event::text("t", "ä".repeat(PAYLOAD_MAX / 2) + "x").build().unwrap_err();
    assert_eq!(wide, Invalid::TooLong { field: "payload", len: 1_048_577, max: 1_048_576, unit: "bytes" });
    let text = wide.to_string();
    assert!(text.contains("1048577") && text.contains("1048576"), "{text}");
}

/// EVT-008
#[tokio::test]
async fn the_limit_is_the_writers_to_set_for_built_events_too() {
    let store = Arc::new(Watched::new());
    let writer = Writer::new(store).payload_limit(10);
    let mut tx = writer.begin().await.unwrap();
    tx.write(Event::bytes("t", [0; 10])).unwrap();
    for refused in [
        tx.write(Event::bytes("t", [0; 11])).unwrap_err(),
        tx.write(Event::bytes("t", [0; 11]).build().unwrap()).unwrap_err(),
    ] {
        assert!(refused.to_string().contains("11 bytes long, at most 10"), "{refused}");
    }
    let larger = Writer::new(Arc::new(Watched::new())).payload_limit(PAYLOAD_MAX + 1);
    larger.begin().await.unwrap().write(Event::bytes("t", vec![0; PAYLOAD_MAX + 1])).unwrap();
}

/// EVT-010
#[test]
fn an_envelope_is_shared_by_its_clones_and_a_changed_one_is_another() {
    let event = Event::text("t", "{\"a\":1}").header("k", "v").build().unwrap();
    let clone = event.clone();
    assert!(std::ptr::eq(event.payload(), clone.payload()), "a clone copies nothing");
    let changed = event.to_builder().header("k", "other").payload_json("{}").build().unwrap();
    assert_eq!(changed.id(), event.id());
    assert_eq!((event.headers().get("k"), event.payload().as_json()), (Some("v"), Some("{\"a\":1}")));
}

/// EVT-010
#[test]
fn what_the_writer_keeps_can_be_changed_without_changing_the_event() {
    let mut bytes = vec![1, 2, 3];
    let event = Event::bytes("t", bytes.clone()).build().unwrap();
    bytes[0] = 9;
    assert_eq!(event.payload().as_bytes(), [1, 2, 3]);
}

/// EVT-002, EVT-011, EVT-013, EVT-014
#[test]
fn types_come_from_an_enum_a_struct_or_a_string() {
    let typed = Event::builder(OrderEvent::OrderPlaced).aggregate_type(Order).payload_json("{}").build();
    let dynamic = Event::text(String::from("order.placed"), "{}").aggregate_type("Order").build();
    let short = Event::json("order.placed", &serde_json::json!({})).unwrap().build();
    for event in [typed, dynamic, short].map(Result::unwrap) {
        assert_eq!((event.event_type(), event.payload().as_json()), ("order.placed", Some("{}")));
    }
    assert_eq!(AggregateType::name(&Global), GLOBAL);
    assert_eq!(Event::text("", "{}").build().unwrap_err(), Invalid::Empty { field: "event type" });
}

/// EVT-006, EVT-007, EVT-009, EVT-012
#[tokio::test(start_paused = true)]
async fn an_event_comes_out_as_it_went_in_hot_and_cold() {
    let text = "{ \"b\" : 1.0e2,\n \"a\": \"\\u00e4\", \"b\": 2 }";
    let raw: Vec<u8> = (0..=255).collect();
    let written = [
        Event::text("t", text).id("json").tenant("acme").header("K", "v").header("k", "ä \"\n").build(),
        Event::bytes("t", raw).id("raw").correlation_id("c").build(),
    ]
    .map(Result::unwrap);
    for (reader, writes_hot) in [("hot", true), ("cold", false)] {
        let (store, seen) = (Watched::new(), Seen::new());
        let writer = Writer::new(Arc::new(store.clone()));
        if !writes_hot {
            let mut tx = writer.begin().await.unwrap();
            tx.write(written.clone()).unwrap();
            tx.commit().await.unwrap();
        }
        let outbox = Outbox::single_node(store.clone()).listener("t", seen.listener()).start().await.unwrap();
        if writes_hot {
            for event in &written {
                commit(&outbox, event.clone()).await;
            }
        }
        let mut taken = seen.wait(2).await;
        taken.sort_by(|a, b| a.id().cmp(b.id()));
        assert_eq!(taken, written, "{reader}");
        assert!(matches!(taken[1].payload(), Payload::Bytes(bytes) if bytes.len() == 256));
        store.until("raw", Status::Done).await;
        outbox.close().await;
    }
}

/// EVT-009
#[tokio::test(start_paused = true)]
async fn the_payload_is_serialised_once() {
    struct Counted(std::cell::Cell<u32>);
    impl serde::Serialize for Counted {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            self.0.set(self.0.get() + 1);
            serializer.serialize_u32(self.0.get())
        }
    }
    let (store, seen, payload) = (Watched::new(), Seen::new(), Counted(0.into()));
    let outbox = Outbox::single_node(store).listener("t", seen.listener()).start().await.unwrap();
    commit(&outbox, Event::json("t", &payload).unwrap()).await;
    assert_eq!(seen.wait(1).await[0].json_as::<u32>().unwrap(), 1);
    outbox.close().await;
    assert_eq!(payload.0.get(), 1);
}

/// EVT-012
#[tokio::test(start_paused = true)]
async fn tenants_are_neither_filtered_nor_kept_apart() {
    let (store, seen) = (Watched::new(), Seen::new());
    let outbox = Outbox::single_node(store).listener("t", seen.listener()).start().await.unwrap();
    for (id, tenant) in [("a", "one"), ("b", "two")] {
        commit(&outbox, event(id).tenant(tenant)).await;
    }
    commit(&outbox, event("c")).await;
    let taken = seen.wait(3).await;
    let tenants: Vec<_> = taken.iter().map(|event| event.tenant_id()).collect();
    assert_eq!(tenants, [Some("one"), Some("two"), None]);
    outbox.close().await;
}
