//! Two settles of one node at once: what one is about, the other leaves alone.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use pillarbox::engine::{Engine, EngineSettings};
use pillarbox::memory::MemoryStore;
use pillarbox::model::Status;
use pillarbox::port::{Order, Table, Verdict};
use tokio::time::timeout;

use crate::kit::{Scripted, engine, pass, record, until, write};
use crate::tampered::{Call, How, Tampered};

const EVENTS: usize = 21;

/// A node with two settles under way, treated in these ways, and ten groups of two events in them or behind them. The
/// first event is settled.
async fn two_under_way(
    store: &MemoryStore,
    tampered: &Arc<Tampered>,
    sink: &Arc<Scripted>,
    hows: [How; 2],
) -> Engine {
    tampered.next(Call::Settle, How::HoldAnswer);
    hows.into_iter().for_each(|how| tampered.next(Call::Settle, how));
    let settings = EngineSettings { order: Order::PerGroup, settle_rows: 4, ..EngineSettings::default() };
    let engine = engine(tampered.clone(), sink.clone(), settings, 1).await;
    for n in 0..EVENTS {
        write(store, &format!("e{n}"), Some(&format!("g{}", n % 10))).await;
        sink.until_sent(n + 1).await;
        pass(Duration::from_millis(20)).await;
    }
    assert_eq!(tampered.take_calls()[&Call::Settle], 1, "the first settle has no answer yet");
    tampered.release();
    pass(Duration::from_millis(1)).await;
    assert_eq!(tampered.take_calls()[&Call::Settle], 2);
    engine
}

async fn done(store: &MemoryStore) -> usize {
    let mut done = 0;
    for n in 0..EVENTS {
        done += usize::from(record(store, &format!("e{n}")).await.status == Status::Done);
    }
    done
}

/// PBX-012, PBX-148
#[tokio::test(start_paused = true)]
async fn shutdown_waits_for_both_settles() {
    let store = MemoryStore::new();
    let tampered = Tampered::new(&store);
    let sink = Scripted::new(|_| Verdict::Accepted);
    let mut engine = two_under_way(&store, &tampered, &sink, [How::HoldRequest; 2]).await;
    let mut closing = pin!(engine.close());
    for _ in 0..2 {
        timeout(Duration::from_secs(1), &mut closing).await.expect_err("a settle has no answer");
        assert!(done(&store).await < EVENTS);
        tampered.release();
    }
    closing.await;
    assert_eq!(done(&store).await, EVENTS);
    assert!(store.admin().nodes().await.unwrap().is_empty(), "it has left");
}

/// PBX-012, PBX-148
#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_made_good_while_the_other_settle_goes_on() {
    for hows in [[How::Lose, How::HoldAnswer], [How::HoldAnswer, How::Fail]] {
        let store = MemoryStore::new();
        let tampered = Tampered::new(&store);
        let sink = Scripted::new(|_| Verdict::Accepted);
        let mut engine = two_under_way(&store, &tampered, &sink, hows).await;
        pass(Duration::from_secs(1)).await;
        assert!(tampered.take_calls()[&Call::Settle] >= 1, "it is repeated");
        tampered.release();
        for n in 0..EVENTS {
            until(&store, &format!("e{n}"), Status::Done).await;
        }
        let ids = sink.ids();
        assert_eq!(ids.len(), EVENTS, "nothing is sent twice: {ids:?}");
        engine.close().await;
    }
}

/// PBX-014, PBX-148
#[tokio::test(start_paused = true)]
async fn a_node_that_was_evicted_under_two_settles_changes_nothing() {
    let store = MemoryStore::new();
    let asleep = Tampered::new(&store);
    let (first, second) = (Scripted::new(|_| Verdict::Accepted), Scripted::new(|_| Verdict::Accepted));
    let mut sleeper = two_under_way(&store, &asleep, &first, [How::HoldRequest; 2]).await;
    asleep.always(Call::Heartbeat, How::HoldRequest);
    let settings = EngineSettings { order: Order::PerGroup, ..EngineSettings::default() };
    let mut other = engine(Arc::new(store.clone()), second.clone(), settings, 2).await;
    let mut taken_over = Vec::new();
    for n in 1..EVENTS {
        taken_over.push(until(&store, &format!("e{n}"), Status::Done).await);
    }
    asleep.let_be();
    (0..10).for_each(|_| asleep.release());
    pass(Duration::from_secs(60)).await;
    for before in taken_over {
        assert_eq!(record(&store, before.id.as_str()).await.done_at, before.done_at, "{}", before.id);
    }
    assert_eq!(second.ids().into_iter().collect::<BTreeSet<_>>().len(), EVENTS - 1);
    assert_eq!(store.admin().nodes().await.unwrap().len(), 2, "it has joined again");
    other.close().await;
    write(&store, "last", Some("g1")).await;
    until(&store, "last", Status::Done).await;
    sleeper.close().await;
}
