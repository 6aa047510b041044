//! Which events are being delivered right now.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::model::EventId;

/// Keeps one event from being run twice at once.
pub trait InFlightTracker: Send + Sync + 'static {
    /// False if it is in flight already.
    fn try_acquire(&self, id: &EventId) -> bool;

    /// It is no longer in flight.
    fn release(&self, id: &EventId);
}

/// The default tracker: a set, whose entries may expire.
#[derive(Debug, Default)]
pub struct InFlightSet {
    entries: Mutex<HashMap<EventId, Option<Instant>>>,
    ttl: Option<Duration>,
}

impl InFlightSet {
    /// Entries stay until they are released.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Entries older than this count as released.
    #[must_use]
    pub fn with_ttl(ttl: Duration) -> Self {
        Self { ttl: Some(ttl), ..Self::default() }
    }
}

impl InFlightTracker for InFlightSet {
    fn try_acquire(&self, id: &EventId) -> bool {
        // Without a TTL nobody asks for the time of an entry.
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

/// Releases when dropped: also when a delivery is cancelled or panics.
pub(crate) struct Acquired<'a> {
    tracker: &'a dyn InFlightTracker,
    id: &'a EventId,
}

impl<'a> Acquired<'a> {
    pub(crate) fn new(tracker: &'a dyn InFlightTracker, id: &'a EventId) -> Option<Self> {
        // Made only if it was acquired: dropping one releases.
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
