//! Each listener has a circuit breaker of its own: a dependency that is down holds no other listener up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pillarbox::Outbox;
use pillarbox::events::{Failure, OutboxBuilder};
use pillarbox::model::Status;
use tokio::time::Instant;
use tracing::Level;

use crate::kit::{Logs, NEVER, Seen, Watched, event, seen::commit};

/// More than fit into memory, several times over.
const BACKLOG: usize = 5_000;

/// A dependency that is up or down, and the calls it got.
#[derive(Clone)]
struct Dependency {
    up: Arc<AtomicBool>,
    called: Seen,
}

impl Dependency {
    fn down() -> Self {
        Self { up: Arc::default(), called: Seen::new() }
    }

    fn recover(&self) {
        self.up.store(true, Ordering::SeqCst);
    }

    fn serve(&self, builder: OutboxBuilder<Watched>) -> OutboxBuilder<Watched> {
        let this = self.clone();
        builder.listener("down", move |event| {
            this.called.note(event);
            let up = this.up.load(Ordering::SeqCst);
            std::future::ready(up.then_some(()).ok_or_else(|| Failure::unavailable("no connection", None)))
        })
    }
}

/// Lets virtual time pass.
async fn pass(time: Duration) {
    tokio::time::timeout(time, std::future::pending::<()>()).await.unwrap_err();
}

/// A backlog of events for what is down, then some for what is up.
async fn backlog(store: &Watched) {
    let writer = Outbox::writer_only(store.clone()).start().await.unwrap();
    for n in 0..BACKLOG {
        commit(&writer, pillarbox::Event::text("down", "{}").id(format!("down{n}"))).await;
    }
    for n in 0..100 {
        commit(&writer, event(&format!("up{n}"))).await;
    }
    writer.close().await;
}

/// PBX-062, PBX-061: the reader passes over what it can't deliver, and comes back for it.
#[tokio::test(start_paused = true)]
async fn a_backlog_of_a_listener_that_is_down_delays_no_other_listener() {
    let (logs, store, up, down) = (Logs::capture(), Watched::new(), Seen::new(), Dependency::down());
    backlog(&store).await;
    let began = Instant::now();
    let builder =
        Outbox::multi_node(store.clone()).lease(Duration::from_secs(15)).listener("t", up.listener());
    let outbox = down.serve(builder).start().await.unwrap();
    up.wait(100).await;
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    assert!(down.called.count() < 50, "{} calls of what is down", down.called.count());
    assert!(logs.has(Level::WARN, "circuit breaker opened"), "{:?}", logs.all());
    let before = store.count("fetch");
    pass(Duration::from_secs(600)).await;
    let (calls, reads) = (down.called.count(), store.count("fetch") - before);
    assert!(calls < 100, "{calls} calls of what is down in ten minutes");
    // A pass over the backlog takes some fifty pages; it is not made without end.
    assert!(reads < 60 * 60, "{reads} reads in ten minutes of outage");
    down.recover();
    for n in 0..BACKLOG {
        store.until(&format!("down{n}"), Status::Done).await;
    }
    assert!(logs.has(Level::INFO, "circuit breaker closed"));
    outbox.close().await;
}

/// PBX-062: groups that wait for their listener keep their order, and leave the reads to others.
#[tokio::test(start_paused = true)]
async fn groups_of_a_listener_that_is_down_wait_in_order() {
    let (store, up, down) = (Watched::new(), Seen::new(), Dependency::down());
    let writer = Outbox::writer_only(store.clone()).start().await.unwrap();
    for n in 0..2_000 {
        let group = format!("g{}", n % 500);
        commit(&writer, pillarbox::Event::text("down", "{}").id(format!("down{n}")).group(group.clone()))
            .await;
        commit(&writer, event(&format!("behind{n}")).group(group)).await;
        commit(&writer, event(&format!("up{n}")).group(format!("other{n}"))).await;
    }
    writer.close().await;
    let builder = Outbox::ordered(store.clone()).listener("t", up.listener());
    let outbox = down.serve(builder).start().await.unwrap();
    up.wait(2_000).await;
    assert!(up.ids().iter().all(|id| id.starts_with("up")), "nothing goes out behind what waits");
    assert!(down.called.count() < 100, "{} calls of what is down", down.called.count());
    down.recover();
    up.wait(4_000).await;
    outbox.close().await;
    let mut last = std::collections::HashMap::new();
    for id in up.ids().iter().filter_map(|id| id.strip_prefix("behind")) {
        let n: usize = id.parse().unwrap();
        let before = last.insert(n % 500, n);
        assert!(before.is_none_or(|before| before < n), "{n} after {before:?}");
    }
}

/// PBX-062: what other listeners accept says nothing of this one's dependency.
#[tokio::test(start_paused = true)]
async fn what_other_listeners_accept_counts_against_no_event() {
    let (store, up, down) = (Watched::new(), Seen::new(), Dependency::down());
    let builder = Outbox::single_node(store.clone()).max_attempts(2);
    let outbox = down.serve(builder.listener("t", up.listener())).start().await.unwrap();
    commit(&outbox, pillarbox::Event::text("down", "{}").id("waits")).await;
    for n in 0..200 {
        commit(&outbox, event(&format!("up{n}"))).await;
        store.until(&format!("up{n}"), Status::Done).await;
        pass(Duration::from_secs(60)).await;
    }
    assert!(down.called.count() > 20, "it is tried all the time: {}", down.called.count());
    let record = store.record("waits").await.unwrap();
    assert_eq!((record.status, record.attempts), (Status::New, 0), "{record:?}");
    down.recover();
    tokio::time::timeout(NEVER, store.until("waits", Status::Done)).await.unwrap();
    outbox.close().await;
}

/// PBX-062, PBX-018: an event under which its own listener fails, while that takes others, is at fault.
#[tokio::test(start_paused = true)]
async fn an_event_that_its_listener_alone_can_not_take_dies() {
    let store = Watched::new();
    let outbox = Outbox::single_node(store.clone())
        .max_attempts(2)
        .listener("t", |event: pillarbox::Event| async move {
            match event.id().as_str() {
                "poison" => Err(Failure::unavailable("no connection", None)),
                _ => Ok(()),
            }
        })
        .start()
        .await
        .unwrap();
    commit(&outbox, event("poison")).await;
    for n in 0.. {
        commit(&outbox, event(&format!("good{n}"))).await;
        store.until(&format!("good{n}"), Status::Done).await;
        if store.status("poison").await == Some(Status::Dead) {
            break;
        }
        pass(Duration::from_secs(60)).await;
        assert!(n < 1_000, "it never dies");
    }
    outbox.close().await;
}
