//! A gate that holds up a frozen node's calls.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Open until it is shut.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    shut: AtomicBool,
    opened: Notify,
}

impl Gate {
    pub(crate) fn shut(&self) {
        self.shut.store(true, Ordering::Relaxed);
    }

    pub(crate) fn open(&self) {
        self.shut.store(false, Ordering::Relaxed);
        self.opened.notify_waiters();
    }

    /// Waits until it is open.
    pub(crate) async fn pass(&self) {
        loop {
            let opened = self.opened.notified();
            if !self.shut.load(Ordering::Relaxed) {
                return;
            }
            opened.await;
        }
    }
}
