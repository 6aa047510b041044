//! In-flight tracking: prevents two concurrent deliveries of one event in this process.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::model::EventId;

/// Prevents concurrent deliveries of the same event.
pub trait InFlightTracker: Send + Sync + 'static {
    /// Marks an event as in flight. Returns false if it is in flight already.
    fn try_acquire(&self, id: &EventId) -> bool;

    /// Marks an event as no longer in flight.
    fn release(&self, id: &EventId);
}

/// The default tracker: a set of ids in memory, optionally with expiry.
#[derive(Debug, Default)]
pub struct InFlightSet {
    entries: Mutex<HashMap<EventId, Option<Instant>>>,
    ttl: Option<Duration>,
}

impl InFlightSet {
    /// Creates a set whose entries stay until they are released.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a set whose entries count as released when they are older than `ttl`.
    #[must_use]
    pub fn with_ttl(ttl: Duration) -> Self {
        Self { ttl: Some(ttl), ..Self::default() }
    }
}

impl InFlightTracker for InFlightSet {
    fn try_acquire(&self, id: &EventId) -> bool {
        // Without a TTL the time of an entry is never read, so the clock call is saved.
        let since = self.ttl.map(|_| Instant::now());
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        match entries.entry(id.clone()) {
            Entry::Vacant(entry) => {
                entry.insert(since);
                true
            }
            Entry::Occupied(mut entry) => {
                let expired = match (self.ttl, since, *entry.get()) {
                    (Some(ttl), Some(now), Some(since)) => now.saturating_duration_since(since) >= ttl,
                    _ => false,
                };
                if expired {
                    entry.insert(since);
                }
                expired
            }
        }
    }

    fn release(&self, id: &EventId) {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
    }
}

/// Releases its event when dropped, so also when a delivery is cancelled or panics.
pub(crate) struct Acquired<'a> {
    tracker: &'a dyn InFlightTracker,
    id: &'a EventId,
}

impl<'a> Acquired<'a> {
    pub(crate) fn new(tracker: &'a dyn InFlightTracker, id: &'a EventId) -> Option<Self> {
        // `then`, not `then_some`: a value built after a failed acquire would release
        // another delivery's entry on drop.
        tracker.try_acquire(id).then(|| Self { tracker, id })
    }
}

impl Drop for Acquired<'_> {
    fn drop(&mut self) {
        self.tracker.release(self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// EVT-072
    #[tokio::test(start_paused = true)]
    async fn stale_entries_expire_after_the_ttl() {
        let id = EventId::ulid();
        let tracker = InFlightSet::with_ttl(Duration::from_secs(10));
        assert!(tracker.try_acquire(&id));
        assert!(!tracker.try_acquire(&id));
        tokio::time::advance(Duration::from_secs(10)).await;
        assert!(tracker.try_acquire(&id));
        tracker.release(&id);
        assert!(tracker.try_acquire(&id));
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_ttl_entries_stay() {
        let id = EventId::ulid();
        let tracker = InFlightSet::new();
        assert!(tracker.try_acquire(&id));
        tokio::time::advance(Duration::from_secs(1_000_000)).await;
        assert!(!tracker.try_acquire(&id));
    }
}
