//! Counts what a listener is given.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pillarbox::queue::Message;
use pillarbox::{Event, Failure};
use tokio::sync::Notify;

use super::PATIENCE;

/// Counts deliveries and tells when as many as wanted are in.
#[derive(Default)]
pub(crate) struct Arrivals {
    count: AtomicUsize,
    wanted: AtomicUsize,
    all: Notify,
}

impl Arrivals {
    pub(crate) fn listener(
        self: &Arc<Self>,
    ) -> impl Fn(Event) -> std::future::Ready<Result<(), Failure>> + use<> {
        let arrivals = Arc::clone(self);
        move |_| {
            arrivals.add();
            std::future::ready(Ok(()))
        }
    }

    /// The same for messages of the queue.
    pub(crate) fn handler(
        self: &Arc<Self>,
    ) -> impl Fn(Message) -> std::future::Ready<Result<(), Failure>> + use<> {
        let arrivals = Arc::clone(self);
        move |_| {
            arrivals.add();
            std::future::ready(Ok(()))
        }
    }

    fn add(&self) {
        let count = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        if count == self.wanted.load(Ordering::Relaxed) {
            self.all.notify_one();
        }
    }

    /// How many are to come from now on.
    pub(crate) fn expect(&self, events: usize) {
        self.wanted.store(self.count.load(Ordering::Relaxed) + events, Ordering::Relaxed);
    }

    /// Waits for them.
    pub(crate) async fn all(&self) -> anyhow::Result<()> {
        Ok(tokio::time::timeout(PATIENCE, self.all.notified()).await?)
    }
}
