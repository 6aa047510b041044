//! The local wake-up: notifies the workers of this process that messages may be claimable.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;

/// The wake-up of one queue.
///
/// Several wake-ups share one channel. A worker of many databases waits on the channel, then compares the
/// counts to find the queues that were notified.
#[derive(Debug, Clone, Default)]
pub(crate) struct LocalWakeup {
    woken: Arc<AtomicU64>,
    any: Arc<watch::Sender<u64>>,
}

impl LocalWakeup {
    /// Creates a wake-up that also notifies a shared channel.
    pub(super) fn beside(any: &Arc<watch::Sender<u64>>) -> Self {
        Self { woken: Arc::default(), any: Arc::clone(any) }
    }

    pub(crate) fn notify(&self) {
        self.woken.fetch_add(1, Ordering::AcqRel);
        self.any.send_modify(|count| *count += 1);
    }

    /// Number of notifications so far.
    pub(super) fn count(&self) -> u64 {
        self.woken.load(Ordering::Acquire)
    }

    /// The channel that this wake-up shares with others.
    pub(super) fn any(&self) -> &Arc<watch::Sender<u64>> {
        &self.any
    }
}
