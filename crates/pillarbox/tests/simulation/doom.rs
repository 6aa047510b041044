//! The end of a process at a drawn call, before or after its effect.

use std::sync::{Mutex, PoisonError};

use fastrand::Rng;
use tokio::sync::Notify;

use crate::faults::When;

/// Ends a process at one of its calls to store or sink.
#[derive(Debug, Default)]
pub(crate) struct Doom {
    left: Mutex<Option<(u64, When)>>,
    pub(crate) struck: Notify,
}

impl Doom {
    /// The process ends at one of its next calls.
    pub(crate) fn arm(&self, rng: &mut Rng, calls: u64) {
        let when = if rng.bool() { When::Before } else { When::After };
        *self.left.lock().unwrap_or_else(PoisonError::into_inner) = Some((rng.u64(1..=calls), when));
    }

    /// Counts a call; when it is the last one.
    pub(crate) fn count(&self) -> Option<When> {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let (calls, when) = (*left)?;
        *left = (calls > 1).then(|| (calls - 1, when));
        (calls == 1).then_some(when)
    }

    /// Nothing is done after this.
    pub(crate) async fn strike(&self) {
        self.struck.notify_one();
        std::future::pending().await
    }
}
