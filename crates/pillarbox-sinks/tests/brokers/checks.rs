//! What must hold for every broker.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pillarbox::Event;
use pillarbox::port::{Delivery, Sink};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::events::{CANARY, Got, TRACEPARENT, delivery, error, words};
use super::server::Server;

const GROUPS: usize = 20;
const EACH: usize = 100;
const BATCH: usize = 10;
/// A third of all.
const BEFORE_RESTART: usize = 667;
pub(crate) const PATIENCE: Duration = Duration::from_secs(150);

/// Every payload byte for byte and in order, ids, trace and headers with them.
pub(crate) fn carried_raw(sent: &[Delivery], got: &[Got]) {
    let bodies: Vec<_> = sent.iter().map(|delivery| delivery.event.payload().as_bytes()).collect();
    assert_eq!(got.iter().map(|got| got.body.as_slice()).collect::<Vec<_>>(), bodies);
    for (delivery, got) in sent.iter().zip(got) {
        assert_eq!(got.header("pillarbox-event-id"), delivery.event.id().as_str());
        assert_eq!(got.header("pillarbox-event-type"), "order.placed");
    }
    assert_eq!(got[2].header("traceparent"), TRACEPARENT);
    assert_eq!(got[2].header("region"), "eu west");
    assert_eq!(got[0].header("content-type"), "application/json");
    assert_eq!(got[1].header("content-type"), "application/octet-stream");
}

/// The payload alone, the attributes beside it.
pub(crate) fn carried_binary(sent: &[Delivery], got: &[Got], prefix: &str) {
    for (delivery, got) in sent.iter().zip(got) {
        assert_eq!(got.body, delivery.event.payload().as_bytes());
        assert_eq!(got.header(&format!("{prefix}id")), delivery.event.id().as_str());
        assert_eq!(got.header(&format!("{prefix}specversion")), "1.0");
        assert_eq!(got.header(&format!("{prefix}type")), "order.placed");
    }
    assert_eq!((got.len(), got[2].header("traceparent")), (sent.len(), TRACEPARENT));
}

/// The payload within a CloudEvent.
pub(crate) fn carried_structured(sent: &[Delivery], got: &[Got]) {
    for (delivery, got) in sent.iter().zip(got) {
        let event: serde_json::Value = serde_json::from_slice(&got.body).unwrap();
        assert_eq!(
            (&event["id"], &event["specversion"]),
            (&delivery.event.id().as_str().into(), &"1.0".into())
        );
        assert_eq!(got.header("content-type"), "application/cloudevents+json");
    }
    // Not a digit of the payload is written anew.
    let text = String::from_utf8(got[0].body.clone()).unwrap();
    assert!(text.contains("{ \"a\" : 1.50,\n\"ü\":[] }"), "{text}");
    assert_eq!((got.len(), got[2].header("traceparent")), (sent.len(), TRACEPARENT));
}

/// A broker that can't be used is told as such, without the password.
pub(crate) async fn refused_without_the_password(sink: &dyn Sink) {
    let batch = [delivery(Event::text("order.placed", "{}").group("g").build().unwrap())];
    let verdicts = timeout(PATIENCE, sink.deliver(&batch)).await.unwrap();
    assert_eq!(words(&verdicts), ["unavailable"]);
    let error = error(&verdicts);
    assert!(!error.is_empty() && !error.contains(CANARY), "{error}");
}

/// More batches at once than a sink lets wait for answers: none waits for another for ever.
pub(crate) async fn many_at_once(sink: Arc<dyn Sink>) {
    const AT_ONCE: usize = 80;
    let mut groups = JoinSet::new();
    for group in 0..AT_ONCE {
        let sink = sink.clone();
        groups.spawn(async move {
            let event = || Event::text("order.placed", "{}").group(format!("g{group}")).build().unwrap();
            let batch: Vec<_> = (0..100).map(|_| delivery(event())).collect();
            words(&sink.deliver(&batch).await)
        });
    }
    while let Some(words) = timeout(PATIENCE, groups.join_next()).await.unwrap() {
        assert_eq!(words.unwrap(), ["accepted"; 100]);
    }
}

/// Delivers all as the engine would, while the server is killed and started again. False if the server is not whole after that:
/// then the run proves nothing.
#[must_use]
pub(crate) async fn deliver_over_a_restart(
    sink: Arc<dyn Sink>,
    server: &mut Server,
    is_whole: impl AsyncFnOnce() -> bool,
) -> bool {
    let (taken, mut seen) = watch::channel(0_usize);
    let (up, is_up) = watch::channel(true);
    let failure = Arc::new(Mutex::new(String::new()));
    let mut groups = JoinSet::new();
    for group in 0..GROUPS {
        groups.spawn(deliver_group(sink.clone(), group, taken.clone(), is_up.clone(), failure.clone()));
    }
    timeout(PATIENCE, seen.wait_for(|taken| *taken >= BEFORE_RESTART)).await.unwrap().unwrap();
    up.send_replace(false);
    server.kill();
    server.start();
    if !is_whole().await {
        groups.shutdown().await;
        return false;
    }
    up.send_replace(true);
    let all = async {
        while let Some(group) = groups.join_next().await {
            group.unwrap();
        }
    };
    if timeout(PATIENCE, all).await.is_err() {
        panic!("{} of {}; the last failure: {}", *taken.borrow(), GROUPS * EACH, failure.lock().unwrap());
    }
    assert_eq!(*taken.borrow(), GROUPS * EACH);
    true
}

async fn deliver_group(
    sink: Arc<dyn Sink>,
    group: usize,
    taken: watch::Sender<usize>,
    mut is_up: watch::Receiver<bool>,
    failure: Arc<Mutex<String>>,
) {
    let event = |n| Event::text("order.placed", format!("{group} {n}")).group(format!("g{group}"));
    let all: Vec<_> = (0..EACH).map(|n| delivery(event(n).build().unwrap())).collect();
    let mut done = 0;
    while done < EACH {
        let verdicts = sink.deliver(&all[done..(done + BATCH).min(EACH)]).await;
        let words = words(&verdicts);
        let accepted = words.iter().take_while(|word| **word == "accepted").count();
        // Nothing is accepted past a failure, and a restart is no fault of an event.
        assert!(words[accepted..].iter().all(|word| ["unavailable", "skipped"].contains(word)), "{words:?}");
        if accepted < words.len() {
            *failure.lock().unwrap() = error(&verdicts);
        }
        done += accepted;
        taken.send_modify(|taken| *taken += accepted);
        is_up.wait_for(|up| *up).await.unwrap();
    }
}

/// Nothing lost, and no first delivery before that of its forerunner.
pub(crate) fn complete_and_in_order(bodies: impl IntoIterator<Item = Vec<u8>>) {
    let mut next: BTreeMap<usize, usize> = (0..GROUPS).map(|group| (group, 0)).collect();
    for body in bodies {
        let text = String::from_utf8(body).unwrap();
        let (group, n) = text.split_once(' ').unwrap();
        let (n, next) = (n.parse::<usize>().unwrap(), next.get_mut(&group.parse().unwrap()).unwrap());
        assert!(n <= *next, "{text} came while {next} was missing");
        // One that comes again is a duplicate, which is allowed.
        *next += usize::from(n == *next);
    }
    assert!(next.values().all(|next| *next == EACH), "{next:?}");
}
