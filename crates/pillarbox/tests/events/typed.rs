//! Typed events: payloads that name their event, and closures that take them.

use std::sync::Arc;
use std::time::Duration;

use pillarbox::model::Status;
use pillarbox::rules::Fixed;
use pillarbox::testing::TestOutbox;
use pillarbox::{AggregateType, Delivery, Event, EventPayload, EventType, Failure, Outbox};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use crate::kit::{Watched, seen::commit};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, EventPayload)]
#[event(type = "order.placed", group = "customer", aggregate(Order, "order"))]
struct Placed {
    order: i64,
    customer: String,
}

#[derive(AggregateType)]
struct Order;

#[derive(EventType)]
#[event_type(rename_all = "dot.case")]
enum Orders {
    OrderPaid,
}

#[derive(Debug, PartialEq, Serialize, Deserialize, EventPayload)]
#[event(type = Orders::OrderPaid)]
struct Paid(u64);

fn placed(order: i64) -> Placed {
    Placed { order, customer: "ann".to_owned() }
}

/// PBX-210
#[tokio::test]
async fn a_payload_names_its_type_group_and_aggregate() {
    let outbox = TestOutbox::new();
    outbox.write(&placed(7)).await.unwrap();
    outbox.write(&Paid(3)).await.unwrap();
    outbox.write(Event::of(&placed(8)).unwrap().header("source", "web")).await.unwrap();
    let written = outbox.written().await;
    let first = &written[0];
    assert_eq!((first.event_type(), first.message_group()), ("order.placed", Some("ann")));
    assert_eq!((first.aggregate_type(), first.aggregate_id()), ("Order", Some("7")));
    assert_eq!(first.json_as::<Placed>().unwrap(), placed(7));
    assert_eq!((written[1].event_type(), written[1].message_group()), ("order.paid", None));
    assert_eq!(written[2].headers().get("source"), Some("web"));
}

/// PBX-211
#[tokio::test]
async fn one_event_an_array_and_an_iterator_are_written_alike() {
    let outbox = TestOutbox::new();
    let mut tx = outbox.begin().await.unwrap();
    let one = tx.write(&placed(1)).unwrap().expect("an id");
    let array = tx.write([&placed(2), &placed(3)]).unwrap();
    let orders = vec![placed(4), placed(5)];
    let borrowed = tx.write(&orders).unwrap();
    let mapped = tx.write((6..8).map(|n| ("order.counted", n.to_string()))).unwrap();
    let none = tx.write(Vec::<Event>::new()).unwrap();
    tx.commit().await.unwrap();
    let written: Vec<_> = outbox.written().await.iter().map(|event| event.id().clone()).collect();
    assert_eq!([vec![one], array, borrowed, mapped, none].concat(), written);
}

/// PBX-210
#[tokio::test(start_paused = true)]
async fn a_closure_takes_the_payload_and_what_is_known_of_its_delivery() {
    let (tell, mut told) = mpsc::channel(8);
    let store = Watched::new();
    let outbox = Outbox::ordered(store.clone())
        .on(move |placed: Placed, cx| {
            let tell = tell.clone();
            async move {
                tell.send((placed, cx.clone())).await?;
                if cx.attempt == 1 {
                    return Err(Failure::retry("the door is shut"));
                }
                Ok(())
            }
        })
        .retry(Fixed(Duration::from_secs(1)))
        .start()
        .await
        .unwrap();
    commit(&outbox, Event::of(&placed(7)).unwrap().id("a").header("source", "web")).await;
    let (payload, first): (Placed, Delivery) = told.recv().await.unwrap();
    let (_, second) = told.recv().await.unwrap();
    store.until("a", Status::Done).await;
    outbox.close().await;
    assert_eq!(payload, placed(7));
    assert_eq!((first.id().as_str(), first.attempt, first.last_error()), ("a", 1, None));
    assert_eq!((second.attempt, second.last_error()), (2, Some("the door is shut")));
    assert_eq!(second.headers().get("source"), Some("web"));
    assert_eq!(second.occurred_at(), first.occurred_at());
}

/// PBX-210
#[tokio::test(start_paused = true)]
async fn a_payload_that_cannot_be_read_is_dead_at_once_and_the_error_names_the_field() {
    let store = Watched::new();
    let outbox =
        Outbox::single_node(store.clone()).on(|_: Placed, _| async { Ok(()) }).start().await.unwrap();
    commit(&outbox, Event::text("order.placed", r#"{"order":"s3cret","customer":"ann"}"#).id("a")).await;
    let dead = store.until("a", Status::Dead).await;
    outbox.close().await;
    let error = dead.last_error.unwrap_or_default();
    assert!(error.contains("Placed: `order`: expected i64") && !error.contains("s3cret"), "{error}");
    assert_eq!(dead.attempts, 1);
}

/// PBX-210
#[tokio::test]
async fn the_kit_has_typed_listeners_too() {
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let note = Arc::clone(&seen);
    let outbox = TestOutbox::new().on(move |paid: Paid, cx| {
        note.lock().unwrap().push((paid, cx.attempt));
        async { Ok(()) }
    });
    outbox.write([&Paid(1), &Paid(2)]).await.unwrap();
    assert_eq!(outbox.run().await.unwrap().delivered, 2);
    assert_eq!(*seen.lock().unwrap(), [(Paid(1), 1), (Paid(2), 1)]);
}
