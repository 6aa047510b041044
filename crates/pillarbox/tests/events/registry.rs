//! Registries: one listener for a pair, and what happens without one.

use std::sync::Arc;

use pillarbox::events::{Failure, Found, ListenerRegistry, Listeners, StartError};
use pillarbox::model::{EventBuilder, Status};
use pillarbox::port::{Delivery, Verdict};
use pillarbox::{AggregateType, Event, EventType, Outbox};

use crate::kit::{Seen, Watched, event, seen::commit};

#[derive(EventType)]
struct Placed;

#[derive(AggregateType)]
struct Order;

/// EVT-064, EVT-090
#[tokio::test(start_paused = true)]
async fn each_pair_goes_to_its_own_listener() {
    let (store, global, order, other) = (Watched::new(), Seen::new(), Seen::new(), Seen::new());
    let outbox = Outbox::single_node(store)
        .listener(Placed, global.listener())
        .listener_for(Order, Placed, order.listener())
        .listener_for("Other", "Placed", other.listener())
        .start()
        .await
        .unwrap();
    commit(&outbox, Event::text("Placed", "{}").id("g")).await;
    commit(&outbox, Event::text("Placed", "{}").id("o").aggregate("Order", 1)).await;
    commit(&outbox, Event::text(Placed, "{}").id("x").aggregate_type("Other")).await;
    for (seen, id) in [(global, "g"), (order, "o"), (other, "x")] {
        seen.wait(1).await;
        assert_eq!(seen.ids(), [id]);
    }
    outbox.close().await;
}

/// EVT-090
#[tokio::test(start_paused = true)]
async fn a_listener_for_an_event_type_takes_it_from_aggregates_that_have_none() {
    let (store, seen) = (Watched::new(), Seen::new());
    let outbox = Outbox::single_node(store).listener(Placed, seen.listener()).start().await.unwrap();
    commit(&outbox, Event::text(Placed, "{}").id("o").aggregate(Order, 1)).await;
    seen.wait(1).await;
    assert_eq!(seen.ids(), ["o"]);
    outbox.close().await;
}

/// EVT-064, EVT-091
#[tokio::test]
async fn registering_a_pair_twice_is_an_error_that_names_it() {
    let seen = Seen::new();
    let mut listeners = Listeners::new();
    listeners.register("t", seen.listener()).unwrap().register_for("A", "t", seen.listener()).unwrap();
    let error = listeners.register_for("__GLOBAL__", "t", seen.listener()).unwrap_err();
    assert_eq!((error.aggregate_type.as_str(), error.event_type.as_str()), ("__GLOBAL__", "t"));
    assert!(error.to_string().contains("aggregate type __GLOBAL__ and event type t"), "{error}");
    let builder =
        Outbox::single_node(Watched::new()).listener("t", seen.listener()).listener("t", seen.listener());
    let error = builder.start().await.err().unwrap();
    assert!(matches!(&error, StartError::Settings(problems) if problems.len() == 1), "{error}");
}

/// EVT-065
#[tokio::test(start_paused = true)]
async fn without_a_listener_an_event_is_dead_at_once_and_the_error_names_the_pair() {
    let (store, seen) = (Watched::new(), Seen::new());
    let outbox = Outbox::single_node(store.clone())
        .listener("other", seen.listener())
        .listener_for("Order", "t", seen.listener())
        .start()
        .await
        .unwrap();
    commit(&outbox, event("a").aggregate("Ship", 1)).await;
    let record = store.until("a", Status::Dead).await;
    assert_eq!(record.attempts, 0, "nothing was tried");
    assert_eq!(record.last_error.as_deref(), Some("no listener for aggregate type Ship, event type t"));
    outbox.close().await;
    assert_eq!(seen.count(), 0);
}

/// EVT-164
#[tokio::test(start_paused = true)]
async fn a_registry_of_ones_own_is_asked() {
    struct Everything(Seen);
    impl ListenerRegistry for Everything {
        fn find(&self, aggregate_type: &str, _: &str) -> Option<Found> {
            (aggregate_type == "A").then(|| Found::new(self.0.listener()))
        }
    }
    let (store, seen) = (Watched::new(), Seen::new());
    let outbox = Outbox::single_node(store.clone())
        .registry(Arc::new(Everything(seen.clone())))
        .start()
        .await
        .unwrap();
    commit(&outbox, event("a").aggregate_type("A")).await;
    commit(&outbox, event("b").aggregate_type("B")).await;
    store.until("a", Status::Done).await;
    store.until("b", Status::Dead).await;
    outbox.close().await;
    assert_eq!(seen.ids(), ["a"]);
}

/// EVT-164
#[tokio::test]
async fn a_listener_may_be_a_type() {
    struct Mailer;
    impl pillarbox::events::Listener for Mailer {
        async fn on_event(&self, event: Event) -> Result<(), Failure> {
            event.json_as::<Vec<u8>>()?;
            Ok(())
        }
    }
    let found = Found::new(Mailer);
    let delivery = |event: EventBuilder| Delivery::first(event.build().unwrap());
    assert_eq!(found.deliver(&delivery(event("a").payload_json("[1]"))).await, Verdict::Accepted);
    let verdict = found.deliver(&delivery(event("a"))).await;
    assert!(matches!(&verdict, Verdict::Failed { error, .. } if error.contains("payload can't be read")));
}
