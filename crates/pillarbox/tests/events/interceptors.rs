//! Interceptors: before in order, after in reverse, whatever becomes of the event.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use pillarbox::events::interceptor::{after, before};
use pillarbox::events::{Failure, Interceptor};
use pillarbox::model::Status;
use pillarbox::rules::Fixed;
use pillarbox::{Event, Outbox};
use tracing::Level;

use crate::kit::{Logs, Seen, Watched, event, seen::commit};

type Steps = Arc<Mutex<Vec<String>>>;

struct Noting(&'static str, Steps);

impl Interceptor for Noting {
    fn before(&self, event: &Event) -> Result<(), Failure> {
        self.1.lock().unwrap().push(format!("before {} {}", self.0, event.id()));
        Ok(())
    }

    fn after(&self, _: &Event, failure: Option<&Failure>) -> Result<(), Failure> {
        let failure = failure.map_or("none", Failure::message);
        self.1.lock().unwrap().push(format!("after {} {failure}", self.0));
        Ok(())
    }
}

/// EVT-063
#[tokio::test(start_paused = true)]
async fn a_list_of_interceptors_runs_in_its_order_after_those_that_are_there() {
    let (store, seen, steps) = (Watched::new(), Seen::new(), Steps::default());
    let note = |name| Arc::new(Noting(name, steps.clone())) as Arc<dyn Interceptor>;
    let outbox = Outbox::single_node(store.clone())
        .interceptor(Noting("1", steps.clone()))
        .interceptors(vec![note("2"), note("3")])
        .interceptors([])
        .listener("t", seen.listener())
        .start()
        .await
        .unwrap();
    commit(&outbox, event("a")).await;
    store.until("a", Status::Done).await;
    outbox.close().await;
    let expected = ["before 1 a", "before 2 a", "before 3 a", "after 3 none", "after 2 none", "after 1 none"];
    assert_eq!(*steps.lock().unwrap(), expected);
}

/// EVT-063
#[tokio::test(start_paused = true)]
async fn before_hooks_run_in_order_after_hooks_in_reverse_and_see_the_error_or_none() {
    for fails in [false, true] {
        let (store, seen, steps) = (Watched::new(), Seen::new(), Steps::default());
        let builder = Outbox::single_node(store.clone())
            .interceptor(Noting("1", steps.clone()))
            .interceptor(Noting("2", steps.clone()))
            .max_attempts(1);
        let builder = if fails {
            builder.listener("t", seen.failing())
        } else {
            builder.listener("t", seen.listener())
        };
        let outbox = builder.start().await.unwrap();
        commit(&outbox, event("a")).await;
        store.until("a", if fails { Status::Dead } else { Status::Done }).await;
        outbox.close().await;
        let error = if fails { "the listener said no" } else { "none" };
        let expected = [
            "before 1 a".to_owned(),
            "before 2 a".to_owned(),
            format!("after 2 {error}"),
            format!("after 1 {error}"),
        ];
        assert_eq!(*steps.lock().unwrap(), expected);
    }
}

/// EVT-063, EVT-074
#[tokio::test(start_paused = true)]
async fn a_failing_before_hook_sends_the_event_to_retry_and_then_dead_without_its_listener() {
    let (store, seen, steps) = (Watched::new(), Seen::new(), Steps::default());
    let told = steps.clone();
    let outbox = Outbox::single_node(store.clone())
        .listener("t", seen.listener())
        .interceptor(before(|_| Err(Failure::retry("not allowed"))))
        .interceptor(after(move |_, failure| {
            told.lock().unwrap().push(failure.map_or("none", Failure::message).to_owned());
        }))
        .max_attempts(2)
        .retry(Fixed(Duration::from_secs(1)))
        .start()
        .await
        .unwrap();
    commit(&outbox, event("a")).await;
    assert_eq!(store.until("a", Status::Retry).await.last_error.as_deref(), Some("not allowed"));
    assert_eq!(store.until("a", Status::Dead).await.attempts, 2);
    outbox.close().await;
    assert_eq!(seen.count(), 0);
    assert_eq!(*steps.lock().unwrap(), ["not allowed", "not allowed"]);
}

/// EVT-063
#[tokio::test(start_paused = true)]
async fn a_failing_or_panicking_after_hook_is_logged_and_the_event_is_done() {
    struct Bad(bool);
    impl Interceptor for Bad {
        fn after(&self, _: &Event, _: Option<&Failure>) -> Result<(), Failure> {
            assert!(!self.0, "in an interceptor");
            Err(Failure::retry("after trouble"))
        }
    }
    let logs = Logs::capture();
    let (store, seen) = (Watched::new(), Seen::new());
    let outbox = Outbox::single_node(store.clone())
        .listener("t", seen.listener())
        .interceptor(Bad(false))
        .interceptor(Bad(true))
        .start()
        .await
        .unwrap();
    commit(&outbox, event("a")).await;
    store.until("a", Status::Done).await;
    outbox.close().await;
    assert!(logs.has(Level::WARN, "after trouble") && logs.has(Level::WARN, "after-interceptor panicked"));
}

/// EVT-063, EVT-073
#[tokio::test(start_paused = true)]
async fn after_hooks_hear_of_a_listener_that_panicked_or_missed_its_deadline() {
    let (store, steps) = (Watched::new(), Steps::default());
    let outbox = Outbox::single_node(store.clone())
        .listener("t", |_: Event| async { panic!("in a listener") as Result<(), Failure> })
        .listener("slow", |_: Event| std::future::pending::<Result<(), Failure>>())
        .interceptor(Noting("1", steps.clone()))
        .deadline(Duration::from_secs(1))
        .max_attempts(1)
        .start()
        .await
        .unwrap();
    commit(&outbox, event("a")).await;
    commit(&outbox, Event::text("slow", "{}").id("b")).await;
    store.until("a", Status::Dead).await;
    store.until("b", Status::Dead).await;
    outbox.close().await;
    let afters = steps.lock().unwrap().iter().filter(|step| step.starts_with("after 1 it panicked")).count();
    assert_eq!(afters, 2);
}
