//! Delayed rows: promoted when they are due, in pages, and whatever can't be promoted delays nothing else.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use pillarbox::Event;
use pillarbox::engine::EngineSettings;
use pillarbox::memory::MemoryStore;
use pillarbox::model::{NewRow, Placement, Status, When};
use pillarbox::port::{Table, Verdict, Write};
use pillarbox::rules::Lease;
use tokio::time::Instant;

use crate::kit::{Scripted, engine, pass, record, until, write};
use crate::tampered::{Call, How, Tampered};
use crate::timed::Timed;

async fn write_due(store: &MemoryStore, ids: impl IntoIterator<Item = String>, ahead: Duration) {
    let due = store.clock().now() + ahead;
    let row = |id| NewRow {
        event: Event::text("t", "{}").id(id).due(When::At(due)).build().unwrap(),
        placement: Placement::Slot,
    };
    store.write(Write { rows: ids.into_iter().map(row).collect(), now: None }).await.unwrap();
}

/// Heartbeats and polls so rare that neither helps.
fn on_its_own() -> EngineSettings {
    EngineSettings {
        lease: Lease::new(Duration::from_secs(1_800)).unwrap(),
        poll_interval: Duration::from_secs(3_600),
        ..EngineSettings::default()
    }
}

/// PBX-050: somebody has locked a row that is due. Everything else is delivered, and there is no busy loop.
#[tokio::test(start_paused = true)]
async fn a_due_row_that_others_have_locked_delays_only_itself() {
    for how in [How::MoveNothing, How::Fail] {
        let store = MemoryStore::new();
        let tampered = Tampered::new(&store);
        let sink = Scripted::new(|_| Verdict::Accepted);
        let mut engine = engine(tampered.clone(), sink.clone(), EngineSettings::default(), 1).await;
        tampered.always(Call::Promote, how);
        write_due(&store, ["locked".to_owned()], Duration::from_secs(3)).await;
        pass(Duration::from_secs(10)).await;
        tampered.take_calls();
        for number in 0..60 {
            let (id, began) = (number.to_string(), Instant::now());
            write(&store, &id, None).await;
            until(&store, &id, Status::Done).await;
            assert!(began.elapsed() < Duration::from_secs(1), "{how:?}: {:?}", began.elapsed());
            pass(Duration::from_secs(1)).await;
        }
        let promotions = tampered.take_calls()[&Call::Promote];
        assert!((10..=30).contains(&promotions), "{how:?}: {promotions} promotions in a minute");
        assert_eq!(record(&store, "locked").await.status, Status::New);
        tampered.let_be();
        let began = Instant::now();
        until(&store, "locked", Status::Done).await;
        assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
        engine.close().await;
    }
}

/// PBX-050: a row that is due later has its time, although one that is due now can't be moved.
#[tokio::test(start_paused = true)]
async fn a_locked_row_puts_off_no_other_due_time() {
    let store = MemoryStore::new();
    let tampered = Tampered::new(&store);
    tampered.always(Call::Promote, How::MoveNothing);
    write_due(&store, ["locked".to_owned()], Duration::from_secs(1)).await;
    write_due(&store, ["later".to_owned()], Duration::from_secs(5)).await;
    let sink = Scripted::new(|_| Verdict::Accepted);
    let mut engine = engine(tampered.clone(), sink, on_its_own(), 1).await;
    let began = Instant::now();
    pass(Duration::from_millis(4_900)).await;
    tampered.let_be();
    until(&store, "later", Status::Done).await;
    assert!(began.elapsed() < Duration::from_millis(5_200), "{:?}", began.elapsed());
    engine.close().await;
}

/// PBX-050: the answer to a promotion says nothing of a retry that was settled after the promotion.
#[tokio::test(start_paused = true)]
async fn a_promotion_forgets_no_due_time_that_came_meanwhile() {
    let store = MemoryStore::new();
    let tampered = Tampered::new(&store);
    let mut tries = 0;
    let sink = Timed::new(move |ids, _| {
        tries += usize::from(ids == ["retried"]);
        let again = Verdict::Failed { error: "not yet".to_owned(), after: Some(Duration::from_millis(300)) };
        match tries {
            1 => (Duration::from_millis(1_500), again),
            _ => (Duration::ZERO, Verdict::Accepted),
        }
    });
    tampered.next(Call::Promote, How::HoldAnswer);
    write(&store, "retried", None).await;
    write_due(&store, ["delayed".to_owned()], Duration::from_secs(1)).await;
    let mut engine = engine(tampered.clone(), sink.clone(), on_its_own(), 1).await;
    sink.until(|requests| requests.len() == 1).await;
    pass(Duration::from_millis(1_600)).await;
    tampered.release();
    until(&store, "retried", Status::Done).await;
    let at = sink.requests().iter().filter(|request| request.ids == ["retried"]).nth(1).unwrap().at;
    assert!(at < Duration::from_millis(2_500), "{at:?}");
    engine.close().await;
}

/// PBX-050, PBX-013: what is due at once is moved in pages, and other rows are read between them.
#[tokio::test(start_paused = true)]
async fn a_crowd_that_is_due_at_once_does_not_keep_others_waiting() {
    let store = MemoryStore::new();
    let tampered = Tampered::new(&store);
    let seen = Arc::new(Mutex::new(None));
    let (calls, noted) = (tampered.clone(), Arc::clone(&seen));
    let sink = Scripted::new(move |delivery| {
        if delivery.event.id().as_str() == "other" {
            *noted.lock().unwrap() = calls.take_calls().get(&Call::Promote).copied();
        }
        Verdict::Accepted
    });
    let settings = EngineSettings { cold_rows: 50, fetch_rows: 10, ..EngineSettings::default() };
    tampered.next(Call::Promote, How::HoldRequest);
    write_due(&store, (0..2_000).map(|number| format!("due{number}")), Duration::from_secs(1)).await;
    let mut engine = engine(tampered.clone(), sink.clone(), settings, 1).await;
    pass(Duration::from_secs(2)).await;
    write(&store, "other", None).await;
    tampered.release();
    sink.until_sent(2_001).await;
    let promotions = seen.lock().unwrap().unwrap();
    assert!(promotions <= 2, "{promotions} pages were moved before the other row was delivered");
    engine.close().await;
}
