//! The bell: tells the workers of this process that there may be something to claim.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;

/// The bell of one queue. Whoever listens to many hears that one was rung, and looks which.
#[derive(Debug, Clone, Default)]
pub(super) struct Bell {
    rung: Arc<AtomicU64>,
    any: Arc<watch::Sender<u64>>,
}

impl Bell {
    /// A bell that is heard together with others.
    pub(super) fn beside(any: &Arc<watch::Sender<u64>>) -> Self {
        Self { rung: Arc::default(), any: Arc::clone(any) }
    }

    pub(super) fn ring(&self) {
        self.rung.fetch_add(1, Ordering::AcqRel);
        self.any.send_modify(|count| *count += 1);
    }

    /// How often it was rung.
    pub(super) fn count(&self) -> u64 {
        self.rung.load(Ordering::Acquire)
    }

    /// What is heard of it and those beside it.
    pub(super) fn any(&self) -> &Arc<watch::Sender<u64>> {
        &self.any
    }
}
