//! Batches: whose fault one is, what goes together, and that a large, slow or failing group harms no other.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use pillarbox::engine::{Engine, EngineSettings, OnDead, Ungrouped};
use pillarbox::memory::MemoryStore;
use pillarbox::model::{EventId, Status};
use pillarbox::port::{Delivery, Handed, Order, Sink, Table, Verdict};
use pillarbox::rules::Fixed;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::kit::{engine_on, led, pass, record, table, until, write};

type Script = Box<dyn FnMut(&[String]) -> Option<Vec<Verdict>> + Send>;

/// Answers batches by a script, and notes the ids of each. No answer: it never comes back.
struct Batches {
    script: Mutex<Script>,
    sent: watch::Sender<Vec<Vec<String>>>,
}

impl Batches {
    fn new(script: impl FnMut(&[String]) -> Option<Vec<Verdict>> + Send + 'static) -> Arc<Self> {
        Arc::new(Self { script: Mutex::new(Box::new(script)), sent: watch::Sender::default() })
    }

    fn sent(&self) -> Vec<Vec<String>> {
        self.sent.borrow().clone()
    }

    async fn until_sent(&self, batches: usize) {
        let mut sent = self.sent.subscribe();
        let all = sent.wait_for(|sent| sent.len() >= batches);
        timeout(Duration::from_secs(3_600), all).await.expect("batches are sent").unwrap();
    }
}

impl Sink for Batches {
    fn deliver<'a>(&'a self, batch: &'a [Delivery]) -> Handed<'a> {
        Box::pin(async move {
            let ids: Vec<String> = batch.iter().map(|one| one.event.id().to_string()).collect();
            let verdicts = (self.script.lock().unwrap())(&ids);
            self.sent.send_modify(|sent| sent.push(ids));
            match verdicts {
                Some(verdicts) => verdicts,
                None => std::future::pending().await,
            }
        })
    }
}

fn accepted(ids: &[String]) -> Option<Vec<Verdict>> {
    Some(vec![Verdict::Accepted; ids.len()])
}

fn settings() -> EngineSettings {
    EngineSettings {
        order: Order::PerGroup,
        on_dead: OnDead::Skip,
        batch: 10,
        max_attempts: 2,
        retry: Arc::new(Fixed(Duration::from_secs(1))),
        poll_interval: Duration::from_secs(1),
        ..EngineSettings::default()
    }
}

/// A store whose rows are read by slots, and one whose rows a leader takes.
fn stores() -> [MemoryStore; 2] {
    [MemoryStore::new(), led()]
}

async fn start(store: &MemoryStore, sink: &Arc<Batches>, settings: EngineSettings, seed: u64) -> Engine {
    engine_on(table(store), sink.clone(), settings, seed).await
}

async fn write_group(store: &MemoryStore, group: &str, count: usize) -> Vec<String> {
    let ids: Vec<String> = (0..count).map(|number| format!("{group}{number:04}")).collect();
    for id in &ids {
        write(store, id, Some(group)).await;
    }
    ids
}

/// PBX-018, RLY-034, RLY-042: a refused batch is sent in parts until the culprit stands alone; the others pass, in order.
#[tokio::test(start_paused = true)]
async fn a_refused_batch_tells_its_culprit() {
    for store in stores() {
        let ids = write_group(&store, "g", 10).await;
        let sink = Batches::new(|ids| {
            let refused = || Verdict::Refused { error: "one is wrong".to_owned() };
            match ids.iter().any(|id| id == "g0007") {
                true if ids.len() > 1 => Some(vec![refused()]),
                true => Some(vec![Verdict::Failed { error: "wrong".to_owned(), after: None }]),
                false => accepted(ids),
            }
        });
        let mut engine = start(&store, &sink, settings(), 1).await;
        until(&store, "g0009", Status::Done).await;
        let culprit = until(&store, "g0007", Status::Dead).await;
        assert_eq!(culprit.last_error.as_deref(), Some("wrong"));
        for id in ids.iter().filter(|id| *id != "g0007") {
            let record = until(&store, id, Status::Done).await;
            assert_eq!(record.last_error, None, "{id} was not at fault");
        }
        let good: Vec<_> =
            sink.sent().into_iter().filter(|ids| !ids.iter().any(|id| id == "g0007")).flatten().collect();
        let in_order: Vec<_> = ids.into_iter().filter(|id| id != "g0007").collect();
        assert_eq!(good, in_order);
        assert_eq!(sink.sent().iter().filter(|ids| ids[..] == ["g0007"]).count(), 2, "alone, twice");
        engine.close().await;
    }
}

/// PBX-010, RLY-042: an event under which the endpoint fails dies, those beside it in its batch do not.
#[tokio::test(start_paused = true)]
async fn a_poison_event_dies_alone() {
    for store in stores() {
        let ids = write_group(&store, "g", 8).await;
        let sink = Batches::new(|ids| {
            let down =
                || Verdict::Unavailable { cause: Default::default(), error: "500".to_owned(), after: None };
            if ids.iter().any(|id| id == "g0003") { Some(vec![down(); ids.len()]) } else { accepted(ids) }
        });
        let settings = EngineSettings { blame_after: Duration::from_secs(30), ..settings() };
        let mut engine = start(&store, &sink, settings, 1).await;
        for number in 0..200 {
            write(&store, &format!("other{number}"), Some("h")).await;
            pass(Duration::from_secs(2)).await;
        }
        until(&store, "g0003", Status::Dead).await;
        for id in ids.iter().filter(|id| *id != "g0003") {
            until(&store, id, Status::Done).await;
            let shown = store.admin().show(EventId::new(id.as_str()).unwrap()).await.unwrap().unwrap();
            assert!(shown.attempts.is_empty(), "{id} was not at fault: {:?}", shown.attempts);
        }
        engine.close().await;
    }
}

/// PBX-018: what an endpoint took behind an item that it did not take is done, and not sent again.
#[tokio::test(start_paused = true)]
async fn what_was_taken_behind_a_failure_is_done() {
    for store in stores() {
        let ids = write_group(&store, "g", 4).await;
        let mut first = true;
        let sink = Batches::new(move |ids| {
            let failed = Verdict::Failed { error: "not this one".to_owned(), after: None };
            let mut verdicts = vec![Verdict::Accepted; ids.len()];
            if std::mem::take(&mut first) {
                verdicts[1] = failed;
            }
            Some(verdicts)
        });
        let mut engine = start(&store, &sink, settings(), 1).await;
        until(&store, "g0001", Status::Done).await;
        assert_eq!(sink.sent(), [ids, vec!["g0001".to_owned()]]);
        engine.close().await;
    }
}

/// PBX-010, RLY-034: ten minutes without an endpoint cost no attempt and kill nothing.
#[tokio::test(start_paused = true)]
async fn an_outage_of_ten_minutes_kills_nothing() {
    for store in stores() {
        let mut ids = write_group(&store, "g", 25).await;
        ids.extend(write_group(&store, "h", 25).await);
        let back = tokio::time::Instant::now() + Duration::from_secs(600);
        let sink = Batches::new(move |ids| {
            let down =
                Verdict::Unavailable { cause: Default::default(), error: "refused".to_owned(), after: None };
            if tokio::time::Instant::now() < back { Some(vec![down; ids.len()]) } else { accepted(ids) }
        });
        let mut engine = start(&store, &sink, settings(), 1).await;
        for id in &ids {
            assert!(until(&store, id, Status::Done).await.attempts <= 1);
        }
        assert!(sink.sent().len() < 200, "a breaker keeps the peace");
        engine.close().await;
    }
}

/// RLY-033: what has no group goes together too, and what failed goes alone the next time.
#[tokio::test(start_paused = true)]
async fn events_without_a_group_share_a_batch() {
    for store in stores() {
        for number in 0..10 {
            write(&store, &format!("e{number}"), None).await;
        }
        let mut first = true;
        let sink = Batches::new(move |ids| {
            let failed = || Verdict::Failed { error: "not yet".to_owned(), after: None };
            let verdict = |id: &String| if id == "e4" && first { failed() } else { Verdict::Accepted };
            let verdicts = ids.iter().map(verdict).collect();
            first &= !ids.iter().any(|id| id == "e4");
            Some(verdicts)
        });
        let settings = EngineSettings { ungrouped: Ungrouped::Parallel, ..settings() };
        let mut engine = start(&store, &sink, settings, 1).await;
        for number in 0..10 {
            until(&store, &format!("e{number}"), Status::Done).await;
        }
        assert!(sink.sent().len() <= 4, "{:?}", sink.sent());
        assert_eq!(sink.sent().last().unwrap()[..], ["e4"]);
        engine.close().await;
    }
}

/// RLY-030: without the setting, rows without a group share one, and keep its order.
#[tokio::test(start_paused = true)]
async fn rows_without_a_group_share_the_default_group() {
    let [_, store] = stores();
    for number in 0..10 {
        write(&store, &format!("e{number}"), None).await;
    }
    let mut failures = 1;
    let sink = Batches::new(move |ids| {
        let fails = ids[0] == "e0" && std::mem::take(&mut failures) > 0;
        let failed = Verdict::Failed { error: "not yet".to_owned(), after: None };
        if fails { Some(vec![failed]) } else { accepted(ids) }
    });
    let mut engine = start(&store, &sink, settings(), 1).await;
    until(&store, "e9", Status::Done).await;
    let after_failure: Vec<_> = sink.sent().into_iter().skip(1).flatten().collect();
    assert_eq!(after_failure, (0..10).map(|number| format!("e{number}")).collect::<Vec<_>>());
    engine.close().await;
}

/// RLY-022, RLY-023, RLY-032, PBX-013: a large group that stands still leaves room for the others, and memory is bounded.
#[tokio::test(start_paused = true)]
async fn a_large_group_that_stands_still_starves_nobody() {
    for store in stores() {
        write_group(&store, "large", 2_000).await;
        for number in 0..100 {
            write(&store, &format!("small{number}"), Some(&format!("s{number}"))).await;
        }
        let sink = Batches::new(|ids| if ids[0].starts_with("large") { None } else { accepted(ids) });
        let settings = EngineSettings { cold_rows: 100, fetch_rows: 20, workers: 3, ..settings() };
        let mut engine = start(&store, &sink, EngineSettings { drain: Duration::ZERO, ..settings }, 1).await;
        for number in 0..100 {
            until(&store, &format!("small{number}"), Status::Done).await;
        }
        assert!(engine.health().in_memory <= 100);
        engine.close().await;
    }
}

/// RLY-035, RLY-032: ten thousand groups pass through a small buffer, and nothing of them stays.
#[tokio::test(start_paused = true)]
async fn many_groups_cost_no_more_than_few() {
    for store in stores() {
        for number in 0..10_000 {
            write(&store, &format!("e{number}"), Some(&format!("g{number}"))).await;
        }
        let sink = Batches::new(accepted);
        let settings = EngineSettings { cold_rows: 200, fetch_rows: 100, workers: 10, ..settings() };
        let mut engine = start(&store, &sink, settings, 1).await;
        sink.until_sent(10_000).await;
        pass(Duration::from_secs(5)).await;
        assert_eq!((engine.health().in_memory, engine.health().out), (0, 0));
        engine.close().await;
    }
}

/// RLY-014, RLY-021, PBX-011: who takes over from a leader that is gone first gives back what that one had in hand.
#[tokio::test(start_paused = true)]
async fn the_next_leader_begins_with_what_the_last_one_had_in_hand() {
    let [_, store] = stores();
    let ids = write_group(&store, "g", 30).await;
    let stuck = Batches::new(|_| None);
    let gone = start(&store, &stuck, settings(), 1).await;
    stuck.until_sent(1).await;
    let sink = Batches::new(accepted);
    let mut standby = start(&store, &sink, settings(), 2).await;
    pass(Duration::from_secs(5)).await;
    assert_eq!((standby.health().slots, sink.sent().len()), (0, 0), "only the leader takes");
    drop(gone);
    until(&store, "g0029", Status::Done).await;
    assert_eq!(sink.sent().concat(), ids, "in order");
    standby.close().await;
}

/// RLY-024, PBX-011: what a leader that stops has not delivered goes on elsewhere at once.
#[tokio::test(start_paused = true)]
async fn a_leader_that_stops_gives_back_at_once() {
    let [_, store] = stores();
    write_group(&store, "g", 30).await;
    let stuck = Batches::new(|_| None);
    let settings = EngineSettings { drain: Duration::from_secs(1), ..settings() };
    let mut stopping = start(&store, &stuck, settings.clone(), 1).await;
    stuck.until_sent(1).await;
    stopping.close().await;
    assert_eq!(record(&store, "g0000").await.locked_by, None, "nothing is left in hand");
    let sink = Batches::new(accepted);
    let began = tokio::time::Instant::now();
    let mut next = start(&store, &sink, settings, 2).await;
    until(&store, "g0029", Status::Done).await;
    assert!(began.elapsed() < Duration::from_secs(2), "it did not wait for a lease");
    next.close().await;
}
