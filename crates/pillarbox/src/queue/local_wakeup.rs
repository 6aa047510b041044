//! The wakeup: tells the workers of this process that there may be something to claim.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;

/// The wakeup of one queue. Whoever listens to many hears that one was woken, and looks which.
#[derive(Debug, Clone, Default)]
pub(super) struct LocalWakeup {
    woken: Arc<AtomicU64>,
    any: Arc<watch::Sender<u64>>,
}

impl LocalWakeup {
    /// A wakeup that is heard together with others.
    pub(super) fn beside(any: &Arc<watch::Sender<u64>>) -> Self {
        Self { woken: Arc::default(), any: Arc::clone(any) }
    }

    pub(super) fn notify(&self) {
        self.woken.fetch_add(1, Ordering::AcqRel);
        self.any.send_modify(|count| *count += 1);
    }

    /// How often it was woken.
    pub(super) fn count(&self) -> u64 {
        self.woken.load(Ordering::Acquire)
    }

    /// What is heard of it and those beside it.
    pub(super) fn any(&self) -> &Arc<watch::Sender<u64>> {
        &self.any
    }
}
