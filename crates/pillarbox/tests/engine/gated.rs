//! A sink that takes an event when it is allowed to, and knows how many it has at once.

use std::sync::Arc;
use std::time::Duration;

use pillarbox::port::{Delivery, Handed, Sink, Verdict};
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    /// In the order they were begun.
    pub(crate) begun: Vec<String>,
    pub(crate) accepted: Vec<String>,
    pub(crate) at_once: usize,
    pub(crate) most_at_once: usize,
}

/// Waits for a permit before it accepts each batch.
pub(crate) struct Gated {
    gate: Semaphore,
    seen: watch::Sender<Seen>,
}

impl Gated {
    pub(crate) fn shut() -> Arc<Self> {
        Arc::new(Self { gate: Semaphore::new(0), seen: watch::Sender::default() })
    }

    /// Lets so many batches through.
    pub(crate) fn open(&self, batches: usize) {
        self.gate.add_permits(batches);
    }

    pub(crate) fn seen(&self) -> Seen {
        self.seen.borrow().clone()
    }

    /// Waits until so many events were begun.
    pub(crate) async fn until_begun(&self, count: usize) {
        let mut seen = self.seen.subscribe();
        let begun = seen.wait_for(|seen| seen.begun.len() >= count);
        timeout(Duration::from_secs(3_600), begun).await.expect("the events are begun").unwrap();
    }

    async fn take(&self, batch: &[Delivery]) -> Vec<Verdict> {
        let ids = || batch.iter().map(|delivery| delivery.event.id().to_string());
        let _out = Out::new(&self.seen, ids());
        self.gate.acquire().await.unwrap().forget();
        self.seen.send_modify(|seen| seen.accepted.extend(ids()));
        vec![Verdict::Accepted; batch.len()]
    }
}

impl Sink for Gated {
    fn deliver<'a>(&'a self, batch: &'a [Delivery]) -> Handed<'a> {
        Box::pin(self.take(batch))
    }
}

/// Counts a batch while it is there, also if its sender gives it up.
struct Out<'a>(&'a watch::Sender<Seen>);

impl<'a> Out<'a> {
    fn new(seen: &'a watch::Sender<Seen>, ids: impl Iterator<Item = String>) -> Self {
        seen.send_modify(|seen| {
            seen.begun.extend(ids);
            seen.at_once += 1;
            seen.most_at_once = seen.most_at_once.max(seen.at_once);
        });
        Self(seen)
    }
}

impl Drop for Out<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|seen| seen.at_once -= 1);
    }
}
