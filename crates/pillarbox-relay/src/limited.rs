//! A sink with a limit on batches in flight, which all engines that use it share.

use std::sync::Arc;

use pillarbox::port::{Delivery, Handed, Sink};
use tokio::sync::Semaphore;

/// A sink behind a limit that others share.
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
            // The limit is never closed: without a permit the batch goes out all the same.
            let _permit = self.limit.acquire().await.ok();
            self.sink.deliver(batch).await
        })
    }
}
