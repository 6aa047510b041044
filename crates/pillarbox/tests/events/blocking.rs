//! Listeners and handlers that block every thread of the application's runtime.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use pillarbox::events::Failure;
use pillarbox::model::Status;
use pillarbox::port::Table;
use pillarbox::{Event, Outbox, Queue};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use crate::kit::seen::commit;
use crate::kit::{Seen, Watched, event};

const THREADS: usize = 2;
const LEASE: Duration = Duration::from_millis(900);
/// What is not there by then never comes.
const LONG: Duration = Duration::from_secs(60);

fn application() -> Runtime {
    Builder::new_multi_thread().worker_threads(THREADS).enable_all().build().unwrap()
}

#[derive(Clone, Default)]
struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    fn block(&self) {
        let (open, opened) = &*self.0;
        drop(opened.wait_while(open.lock().unwrap(), |open| !*open).unwrap());
    }

    fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }
}

/// PBX-094: a process that hangs for longer than its listeners may take loses its share, and comes back with the runtime.
#[tokio::test]
async fn a_runtime_that_hangs_past_the_deadline_loses_its_node() {
    let (store, seen, gate, app) = (Watched::new(), Seen::new(), Gate::default(), application());
    let blocking = {
        let (seen, gate) = (seen.clone(), gate.clone());
        move |event: Event| {
            seen.note(event);
            gate.block();
            std::future::ready(Ok::<_, Failure>(()))
        }
    };
    let builder = Outbox::multi_node(store.clone()).lease(LEASE).listener("t", blocking).workers(4);
    let hanging = app.spawn(builder.deadline(LEASE / 2).start()).await.unwrap().unwrap();
    let other = Outbox::multi_node(store.clone()).lease(LEASE).listener("u", Seen::new().listener());
    let other = other.start().await.unwrap();
    let nodes = async |count: usize| {
        let there = async || (store.inner.admin().nodes().await.unwrap().len() == count).then_some(());
        timeout(LONG, store.until_that(there)).await.expect("so many nodes");
    };
    nodes(2).await;
    for n in 0..THREADS {
        commit(&hanging, event(&n.to_string())).await;
    }
    timeout(LONG, seen.wait(THREADS)).await.expect("every thread is blocked");
    nodes(1).await;
    gate.open();
    nodes(2).await;
    app.spawn(async move { hanging.close().await }).await.unwrap();
    other.close().await;
    app.shutdown_background();
}

/// PBX-094, OBX-056
#[tokio::test]
async fn handlers_that_block_every_thread_cost_no_claim() {
    let (store, seen, gate, app) = (Watched::new(), Seen::new(), Gate::default(), application());
    let queue = Queue::new(store.clone());
    let blocking = {
        let (seen, gate) = (seen.clone(), gate.clone());
        move |message: pillarbox::queue::Message| {
            seen.note(message.event().clone());
            gate.block();
            std::future::ready(Ok::<_, Failure>(()))
        }
    };
    let builder = queue.worker().lease(LEASE).deadline(LONG).handler("t", blocking).workers(4);
    let worker = app.spawn(async move { builder.start() }).await.unwrap().unwrap();
    let ids = ["a", "b"].map(|id| Event::text("t", "{}").id(id));
    queue.enqueue_all(ids).await.unwrap();
    timeout(LONG, seen.wait(THREADS)).await.expect("every thread is blocked");
    let before = store.count("settle");
    let renewed = async || (store.count("settle") >= before + 6).then_some(());
    timeout(LONG, store.until_that(renewed)).await.expect("the claims are renewed");
    gate.open();
    for id in ["a", "b"] {
        let done = timeout(LONG, store.until(id, Status::Done)).await.expect("it ends");
        assert_eq!(done.attempts, 1);
    }
    app.spawn(async move { worker.close().await }).await.unwrap();
    app.shutdown_background();
    assert_eq!(seen.count(), 2, "each was handled once");
}
