//! Writer hooks: their order, what they may change, and that their failures stay with them.

use std::sync::{Arc, Mutex};

use pillarbox::events::{Failure, WriteError, WriterHook};
use pillarbox::port::Begin;
use pillarbox::{Event, Writer};
use tracing::Level;

use crate::kit::{Logs, Watched, event};

/// Remembers every moment with the ids it saw, and does what it is told.
#[derive(Default)]
struct Recording {
    moments: Mutex<Vec<String>>,
    store: Option<Watched>,
    misbehave: Option<fn() -> Result<(), Failure>>,
}

impl Recording {
    fn note(&self, moment: &str, events: &[Event]) -> Result<(), Failure> {
        let ids: Vec<_> = events.iter().map(|event| event.id().as_str()).collect();
        let inserted = self.store.as_ref().map_or(0, |store| store.count("insert"));
        self.moments.lock().unwrap().push(format!("{moment} {} inserts={inserted}", ids.join("+")));
        self.misbehave.map_or(Ok(()), |misbehave| misbehave())
    }

    fn moments(&self) -> Vec<String> {
        self.moments.lock().unwrap().clone()
    }
}

impl WriterHook for Recording {
    fn before_write(&self, events: Vec<Event>) -> Result<Vec<Event>, Failure> {
        let ids: Vec<_> = events.iter().map(|event| event.id().as_str()).collect();
        self.moments.lock().unwrap().push(format!("before {}", ids.join("+")));
        Ok(events)
    }

    fn after_write(&self, events: &[Event]) -> Result<(), Failure> {
        self.note("written", events)
    }

    fn after_commit(&self, events: &[Event]) -> Result<(), Failure> {
        self.note("committed", events)
    }

    fn after_rollback(&self, events: &[Event]) -> Result<(), Failure> {
        self.note("rolled back", events)
    }
}

type Change = fn(Vec<Event>) -> Result<Vec<Event>, Failure>;

/// Does to the list what its closure does.
struct Changing(Change);

impl WriterHook for Changing {
    fn before_write(&self, events: Vec<Event>) -> Result<Vec<Event>, Failure> {
        (self.0)(events)
    }
}

fn hooked(hook: impl WriterHook) -> (Watched, Writer<Watched>) {
    let store = Watched::new();
    (store.clone(), Writer::new(Arc::new(store)).hook(Arc::new(hook)))
}

/// EVT-033, EVT-034
#[tokio::test]
async fn hooks_run_in_order_once_for_each_batch() {
    let store = Watched::new();
    let hook = Arc::new(Recording { store: Some(store.clone()), ..Recording::default() });
    let writer = Writer::new(Arc::new(store)).hook(hook.clone());
    let mut tx = writer.begin().await.unwrap();
    tx.write(["a", "b"].map(event)).unwrap();
    tx.write(event("c")).unwrap();
    tx.commit().await.unwrap();
    let expected = [
        "before a+b",
        "before c",
        "written a+b inserts=1",
        "written c inserts=1",
        "committed a+b inserts=1",
        "committed c inserts=1",
    ];
    assert_eq!(hook.moments(), expected);
}

/// EVT-033, EVT-034
#[tokio::test]
async fn a_rollback_tells_each_batch_once_inserted_or_not() {
    let hook = Arc::new(Recording::default());
    let writer = Writer::new(Arc::new(Watched::new())).hook(hook.clone());
    let mut tx = writer.begin().await.unwrap();
    tx.write(["a", "b"].map(event)).unwrap();
    tx.flush().await.unwrap();
    tx.write(event("c")).unwrap();
    drop(tx);
    let expected = [
        "before a+b",
        "written a+b inserts=0",
        "before c",
        "rolled back a+b inserts=0",
        "rolled back c inserts=0",
    ];
    assert_eq!(hook.moments(), expected);
}

/// EVT-033, EVT-034
#[tokio::test]
async fn a_receipt_runs_the_hooks_of_its_end() {
    for (committed, last) in [(true, "committed a inserts=0"), (false, "rolled back a inserts=0")] {
        let hook = Arc::new(Recording::default());
        let writer = Writer::new(Arc::new(Watched::new())).hook(hook.clone());
        let mut tx = writer.store().inner.begin().await.unwrap();
        let receipt = writer.write_on(&mut tx, [event("a")]).await.unwrap();
        if committed {
            receipt.committed()
        } else {
            receipt.rolled_back()
        }
        assert_eq!(hook.moments(), ["before a", "written a inserts=0", last]);
    }
}

/// EVT-031
#[tokio::test]
async fn a_before_hook_may_change_the_list() {
    let (store, writer) = hooked(Changing(|events| {
        let mut events: Vec<_> = events
            .iter()
            .map(|event| event.to_builder().header("by", "hook").build())
            .collect::<Result<_, _>>()?;
        events.push(event("extra").build()?);
        Ok(events)
    }));
    let mut tx = writer.begin().await.unwrap();
    let ids = tx.write([event("a")]).unwrap();
    assert_eq!(ids.iter().map(|id| id.as_str()).collect::<Vec<_>>(), ["a", "extra"]);
    tx.commit().await.unwrap();
    let stored = store.record("a").await.unwrap().event.unwrap();
    assert_eq!(stored.headers().get("by"), Some("hook"));
    assert_eq!(store.rows().await, 2);
}

/// EVT-031
#[tokio::test]
async fn a_suppressed_write_has_no_row_no_id_and_no_further_hook() {
    let after = Arc::new(Recording::default());
    let (store, writer) = hooked(Changing(|_| Ok(Vec::new())));
    let writer = writer.hook(after.clone());
    let mut tx = writer.begin().await.unwrap();
    assert_eq!(tx.write(event("a")).unwrap(), None);
    assert_eq!(tx.write([event("b")]).unwrap(), []);
    tx.commit().await.unwrap();
    let mut own = store.inner.begin().await.unwrap();
    assert!(writer.write_on(&mut own, [event("c")]).await.unwrap().ids().is_empty());
    assert_eq!((store.rows().await, store.count("insert")), (0, 0));
    assert!(after.moments().iter().all(|moment| moment.starts_with("before")), "{:?}", after.moments());
}

/// EVT-036
#[tokio::test]
async fn a_before_hook_that_fails_or_panics_fails_the_write_and_nothing_is_inserted() {
    let failing: [Change; 2] = [|_| Err(Failure::retry("not today")), |_| panic!("in a hook")];
    for (hook, says) in failing.into_iter().zip(["not today", "before-write hook panicked"]) {
        let (store, writer) = hooked(Changing(hook));
        let mut tx = writer.begin().await.unwrap();
        let error = tx.write(event("a")).unwrap_err();
        assert!(matches!(&error, WriteError::Hook(why) if why == says), "{error}");
        tx.commit().await.unwrap();
        assert_eq!((store.rows().await, store.count("insert")), (0, 0));
    }
}

/// EVT-008, EVT-031
#[tokio::test]
async fn what_a_hook_makes_of_an_event_keeps_the_writers_limit_too() {
    let (store, writer) = hooked(Changing(|events| {
        let larger = events.iter().map(|event| event.to_builder().payload_json("x".repeat(11)).build());
        Ok(larger.collect::<Result<_, _>>()?)
    }));
    let mut tx = writer.payload_limit(10).begin().await.unwrap();
    assert!(matches!(tx.write(event("a")), Err(WriteError::Invalid(_))));
    tx.commit().await.unwrap();
    assert_eq!(store.rows().await, 0);
}

/// EVT-032
#[tokio::test]
async fn a_hook_that_fails_or_panics_later_is_logged_and_never_reaches_the_caller() {
    let misbehaviours: [fn() -> Result<(), Failure>; 2] =
        [|| Err(Failure::retry("hook trouble")), || panic!("in a hook")];
    for (misbehave, says) in misbehaviours.into_iter().zip(["hook trouble", "writer hook panicked"]) {
        let logs = Logs::capture();
        let last = Arc::new(Recording::default());
        let (store, writer) = hooked(Recording { misbehave: Some(misbehave), ..Recording::default() });
        let writer = writer.hook(last.clone());
        let mut tx = writer.begin().await.unwrap();
        tx.write(event("a")).unwrap();
        tx.commit().await.unwrap();
        let mut tx = writer.begin().await.unwrap();
        tx.write(event("b")).unwrap();
        tx.rollback().await.unwrap();
        assert_eq!(store.rows().await, 1);
        assert_eq!(last.moments().len(), 5, "the hooks behind it run all the same");
        for moment in ["Write", "Commit", "Rollback"] {
            let told = logs.all().iter().any(|(_, line)| line.contains(says) && line.contains(moment));
            assert!(told, "{says} {moment}");
        }
        assert!(logs.has(Level::WARN, says));
    }
}

/// EVT-035
#[tokio::test]
async fn without_a_hook_nothing_happens_after_the_commit() {
    let store = Watched::new();
    let writer = Writer::new(Arc::new(store.clone()));
    let mut tx = writer.begin().await.unwrap();
    tx.write(event("a")).unwrap();
    tx.commit().await.unwrap();
    assert_eq!(store.calls(), ["begin", "insert", "commit", "committed"]);
    assert_eq!(store.status("a").await, Some(pillarbox::model::Status::New));
}
