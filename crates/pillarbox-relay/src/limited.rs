//! Limits the batches in flight of several engines together: two tables of one source share the limit.

use std::sync::Arc;

use pillarbox::port::{Delivery, Handed, Sink};
use tokio::sync::Semaphore;

/// A sink that takes a permit of a shared semaphore for each batch.
pub(crate) struct Limited {
    sink: Arc<dyn Sink>,
    limit: Arc<Semaphore>,
}

impl Limited {
    pub(crate) fn new(sink: Arc<dyn Sink>, limit: Arc<Semaphore>) -> Self {
        Self { sink, limit }
    }
}

impl Sink for Limited {
    fn deliver<'a>(&'a self, batch: &'a [Delivery]) -> Handed<'a> {
        Box::pin(async move {
            // Nothing closes the semaphore; if something did, the batch would still be sent.
            let _permit = self.limit.acquire().await.ok();
            self.sink.deliver(batch).await
        })
    }
}
