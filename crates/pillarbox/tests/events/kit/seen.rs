//! A listener that remembers what it took.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use pillarbox::events::Failure;
use pillarbox::{Event, Outbox};
use tokio::sync::watch;
use tokio::time::timeout;

use super::{NEVER, Watched};

/// What listeners have taken so far.
#[derive(Clone)]
pub(crate) struct Seen(Arc<watch::Sender<Vec<Event>>>);

impl Seen {
    pub(crate) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(Vec::new())))
    }

    pub(crate) fn note(&self, event: Event) {
        self.0.send_modify(|events| events.push(event));
    }

    /// A listener that takes everything.
    pub(crate) fn listener(
        &self,
    ) -> impl Fn(Event) -> Pin<Box<dyn Future<Output = Result<(), Failure>> + Send>> + Send + Sync + 'static + use<>
    {
        let seen = self.clone();
        move |event| {
            seen.note(event);
            Box::pin(async { Ok(()) })
        }
    }

    /// A listener that always fails.
    pub(crate) fn failing(
        &self,
    ) -> impl Fn(Event) -> Pin<Box<dyn Future<Output = Result<(), Failure>> + Send>> + Send + Sync + 'static + use<>
    {
        let seen = self.clone();
        move |event| {
            seen.note(event);
            Box::pin(async { Err(Failure::retry("the listener said no")) })
        }
    }

    /// Waits until so many were taken.
    pub(crate) async fn wait(&self, count: usize) -> Vec<Event> {
        let mut events = self.0.subscribe();
        let enough = timeout(NEVER, events.wait_for(|events| events.len() >= count)).await;
        enough.expect("events that were never delivered").unwrap().clone()
    }

    pub(crate) fn ids(&self) -> Vec<String> {
        self.0.borrow().iter().map(|event| event.id().to_string()).collect()
    }

    pub(crate) fn count(&self) -> usize {
        self.0.borrow().len()
    }
}

/// Writes one event in a transaction of its own.
pub(crate) async fn commit<M, E: pillarbox::model::IntoEvents<M>>(outbox: &Outbox<Watched>, event: E) {
    let mut tx = outbox.begin().await.unwrap();
    tx.write(event).unwrap();
    tx.commit().await.unwrap();
}
