//! A dispatcher that delivers what its poller has claimed: claims that run out, and claims that are given back.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use pillarbox::Event;
use pillarbox::engine::EngineSettings;
use pillarbox::events::{Dispatcher, Failure, Listener, Listeners, Poller};
use pillarbox::model::Status;
use tokio::time::timeout;

use crate::dispatcher::rows;
use crate::kit::{Seen, Watched};
use crate::poller::{Basket, claiming, poller};

const LEASE: Duration = Duration::from_secs(60);

/// A dispatcher and its poller, which claims as "me".
fn claimed(store: &Watched, listener: impl Listener, settings: EngineSettings) -> (Arc<Dispatcher>, Poller) {
    let mut listeners = Listeners::new();
    listeners.register("t", listener).unwrap();
    let claims = claiming("me", LEASE);
    let owner = claims.claim.clone().unwrap().owner;
    let builder = Dispatcher::builder(Arc::new(store.clone()), listeners).settings(settings);
    let dispatcher = Arc::new(builder.claimed_by(owner).start().unwrap());
    let poller = Poller::new(Arc::new(store.clone()), dispatcher.clone(), claims).unwrap();
    (dispatcher, poller)
}

/// One worker that does not wait for deliveries when it closes.
fn hasty() -> EngineSettings {
    EngineSettings { workers: 1, drain: Duration::ZERO, ..EngineSettings::default() }
}

/// Notes an event, and never ends.
fn stuck(seen: &Seen) -> impl Listener + use<> {
    let seen = seen.clone();
    move |event: Event| {
        seen.note(event);
        pending::<Result<(), Failure>>()
    }
}

/// PBX-070: the poller claims the event again while it is being delivered.
#[tokio::test(start_paused = true)]
async fn an_event_whose_listener_outlasts_the_claim_is_delivered_once() {
    let (store, seen) = (Watched::new(), Seen::new());
    let noted = seen.clone();
    let slow = move |event: Event| {
        noted.note(event);
        async {
            timeout(LEASE + LEASE / 2, pending::<()>()).await.unwrap_err();
            Ok::<_, Failure>(())
        }
    };
    let (dispatcher, poller) = claimed(&store, slow, EngineSettings::default());
    rows(&store, &["a"]).await;
    poller.start().unwrap();
    let ended = async || store.record("a").await.filter(|record| !record.status.is_pending());
    let record = store.until_that(ended).await;
    assert_eq!((record.status, record.attempts, seen.count()), (Status::Done, 1, 1));
    poller.close().await;
    dispatcher.close().await;
}

/// PBX-070: the outcome is under way when the poller claims the event again.
#[tokio::test(start_paused = true)]
async fn an_outcome_that_arrives_after_the_next_claim_is_settled_under_it() {
    let (store, seen) = (Watched::new(), Seen::new());
    let (dispatcher, poller) = claimed(&store, seen.listener(), EngineSettings::default());
    rows(&store, &["a"]).await;
    let settling = store.hold("settle");
    poller.poll().await.unwrap();
    settling.reached().await;
    tokio::time::advance(LEASE).await;
    assert_eq!(poller.poll().await.unwrap(), 1);
    settling.release();
    let record = store.until("a", Status::Done).await;
    assert_eq!((record.attempts, seen.count()), (1, 1));
    dispatcher.close().await;
}

/// PBX-070: a restart puts nothing into quarantine.
#[tokio::test(start_paused = true)]
async fn a_dispatcher_that_closes_gives_back_what_its_poller_has_claimed() {
    let (store, seen) = (Watched::new(), Seen::new());
    let (dispatcher, poller) = claimed(&store, stuck(&seen), hasty());
    rows(&store, &["a", "b"]).await;
    assert_eq!(poller.poll().await.unwrap(), 2);
    seen.wait(1).await;
    dispatcher.close().await;
    for id in ["a", "b"] {
        let record = store.record(id).await.unwrap();
        assert_eq!((record.locked_by, record.attempts), (None, 0), "{id}");
    }
}

/// PBX-070: the first one is being delivered, with its attempt recorded; the second one waits behind it.
#[tokio::test(start_paused = true)]
async fn a_lapsed_claim_that_a_closing_dispatcher_gives_back_stays_lapsed() {
    let (store, seen) = (Watched::new(), Seen::new());
    rows(&store, &["a", "b"]).await;
    poller(&store, &Basket::of(2, true), claiming("gone", LEASE)).poll().await.unwrap();
    tokio::time::advance(LEASE).await;
    let (dispatcher, claims) = claimed(&store, stuck(&seen), hasty());
    assert_eq!(claims.poll().await.unwrap(), 2);
    seen.wait(1).await;
    dispatcher.close().await;
    let basket = Basket::of(2, true);
    assert_eq!(poller(&store, &basket, claiming("next", LEASE)).poll().await.unwrap(), 2, "at once");
    assert_eq!(basket.attempts(), [1, 2], "only the claim that ran out unproven counts");
}

/// PBX-070: an event that is not sent because the dependency of its listener is down is free until it may be sent.
#[tokio::test(start_paused = true)]
async fn a_claimed_event_whose_route_is_shut_is_given_back_until_it_opens() {
    let store = Watched::new();
    let down = |_: Event| async { Err::<(), _>(Failure::unavailable("no connection", None)) };
    let settings = EngineSettings { workers: 1, ..EngineSettings::default() };
    let (dispatcher, poller) = claimed(&store, down, settings);
    rows(&store, &["a", "b", "c", "d", "e", "f"]).await;
    assert_eq!(poller.poll().await.unwrap(), 6);
    let told = async || store.record("f").await.filter(|record| record.last_error.is_some());
    let record = store.until_that(told).await;
    assert!(record.last_error.unwrap().contains("circuit breaker"));
    assert_eq!((record.status, record.locked_by, record.attempts), (Status::Retry, None, 0));
    dispatcher.close().await;
}
