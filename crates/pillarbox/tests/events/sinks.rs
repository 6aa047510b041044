//! Sinks in the place of listeners: their verdicts count as they are.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use pillarbox::Outbox;
use pillarbox::events::{Failure, Interceptor, StartError};
use pillarbox::model::Status;
use pillarbox::port::{Delivery, Handed, Sink, Verdict};
use pillarbox::{Event, EventType};

use crate::kit::{Seen, Watched, event, seen::commit};

#[derive(EventType)]
struct Placed;

/// Says what it was told to say, then yes.
struct Scripted(Mutex<VecDeque<Verdict>>, Seen);

impl Scripted {
    fn told(script: impl IntoIterator<Item = Verdict>, seen: &Seen) -> Arc<dyn Sink> {
        Arc::new(Self(Mutex::new(script.into_iter().collect()), seen.clone()))
    }
}

impl Sink for Scripted {
    fn deliver<'a>(&'a self, batch: &'a [Delivery]) -> Handed<'a> {
        let verdict = |delivery: &Delivery| {
            self.1.note(delivery.event.clone());
            self.0.lock().unwrap().pop_front().unwrap_or(Verdict::Accepted)
        };
        Box::pin(async move { batch.iter().map(verdict).collect() })
    }
}

#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<Option<String>>>>);

impl Interceptor for Told {
    fn after(&self, _: &Event, failure: Option<&Failure>) -> Result<(), Failure> {
        self.0.lock().unwrap().push(failure.map(|failure| failure.message().to_owned()));
        Ok(())
    }
}

/// EVT-064
#[tokio::test(start_paused = true)]
async fn a_sink_takes_its_route_beside_listeners() {
    let (store, sunk, heard) = (Watched::new(), Seen::new(), Seen::new());
    let outbox = Outbox::single_node(store)
        .sink(Placed, Scripted::told([], &sunk))
        .sink_for("Order", "t", Scripted::told([], &sunk))
        .listener("t", heard.listener())
        .start()
        .await
        .unwrap();
    commit(&outbox, Event::text(Placed, "{}").id("p")).await;
    commit(&outbox, event("o").aggregate("Order", 1)).await;
    commit(&outbox, event("l")).await;
    sunk.wait(2).await;
    heard.wait(1).await;
    outbox.close().await;
    let mut ids = sunk.ids();
    ids.sort();
    assert_eq!((ids, heard.ids()), (vec!["o".to_owned(), "p".to_owned()], vec!["l".to_owned()]));
}

/// PBX-018
#[tokio::test(start_paused = true)]
async fn an_endpoint_that_is_down_burns_no_attempt_of_an_event() {
    let (store, seen) = (Watched::new(), Seen::new());
    let down = || Verdict::Unavailable { cause: Default::default(), error: "down".to_owned(), after: None };
    let sink = Scripted::told(std::iter::repeat_with(down).take(6), &seen);
    let outbox = Outbox::single_node(store.clone()).sink("t", sink).max_attempts(2).start().await.unwrap();
    commit(&outbox, event("a")).await;
    store.until("a", Status::Done).await;
    outbox.close().await;
    assert_eq!(seen.count(), 7);
}

/// EVT-064
#[tokio::test(start_paused = true)]
async fn an_event_a_sink_rejects_is_dead_at_once_and_interceptors_hear_why() {
    let (store, seen, told) = (Watched::new(), Seen::new(), Told::default());
    let rejected = Verdict::Rejected { error: "too large".to_owned() };
    let failed = Verdict::Failed { error: "not yet".to_owned(), after: None };
    let outbox = Outbox::single_node(store.clone())
        .sink("t", Scripted::told([rejected, failed], &seen))
        .interceptor(told.clone())
        .start()
        .await
        .unwrap();
    commit(&outbox, event("a")).await;
    store.until("a", Status::Dead).await;
    commit(&outbox, event("b")).await;
    store.until("b", Status::Done).await;
    outbox.close().await;
    assert_eq!(seen.ids(), ["a", "b", "b"]);
    let told = told.0.lock().unwrap().clone();
    assert_eq!(told, [Some("too large".to_owned()), Some("not yet".to_owned()), None]);
}

/// EVT-091
#[tokio::test]
async fn a_route_goes_to_one_sink_or_listener() {
    let seen = Seen::new();
    let builder = Outbox::single_node(Watched::new()).listener("t", seen.listener());
    let error = builder.sink("t", Scripted::told([], &seen)).start().await.err().unwrap();
    assert!(matches!(error, StartError::Settings(_)), "{error}");
}
