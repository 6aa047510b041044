//! Dead events: list, count, replay.

use std::sync::Arc;

use crate::model::{EventId, Record, Status};
use crate::port::{List, Replay, Select, StoreError, Table};

/// Maximum number of batches in one replay, as a bound on its loop.
const BATCHES_MAX: usize = 1_000_000;

/// Selects dead events; all fields that are set must match.
#[derive(Debug, Clone, Default)]
pub struct DeadFilter {
    /// Only events of this type.
    pub event_type: Option<String>,
    /// Only events of this aggregate type.
    pub aggregate_type: Option<String>,
}

impl DeadFilter {
    fn select(&self) -> Select {
        Select {
            statuses: vec![Status::Dead],
            event_type: self.event_type.clone(),
            aggregate_type: self.aggregate_type.clone(),
            ..Select::default()
        }
    }
}

/// Access to the dead events of a store. A database error is returned, never hidden as an empty result.
#[derive(Clone)]
pub struct DeadEvents {
    store: Arc<dyn Table>,
    by: String,
}

impl DeadEvents {
    /// Access to the dead events of this store; the audit log records `by` as the actor.
    #[must_use]
    pub fn new(store: Arc<dyn Table>, by: impl Into<String>) -> Self {
        Self { store, by: by.into() }
    }

    /// Lists at most `limit` dead events, oldest first.
    pub async fn query(&self, filter: &DeadFilter, limit: usize) -> Result<Vec<Record>, StoreError> {
        self.store.admin().list(List { select: filter.select(), limit, ..List::default() }).await
    }

    /// Counts dead events, optionally only those of one event type.
    pub async fn count(&self, event_type: Option<&str>) -> Result<u64, StoreError> {
        let filter = DeadFilter { event_type: event_type.map(str::to_owned), aggregate_type: None };
        self.store.admin().count(filter.select()).await
    }

    /// Replays one dead event: it is pending again with no attempts counted. Returns false
    /// if it was not dead.
    pub async fn replay(&self, id: &EventId) -> Result<bool, StoreError> {
        let select = Select { ids: vec![id.clone()], ..DeadFilter::default().select() };
        Ok(self.batch(select, 1).await? == 1)
    }

    /// Replays all matching events that are dead now, in batches. Returns the number of replayed events.
    pub async fn replay_all(&self, filter: &DeadFilter, batch: usize) -> Result<u64, StoreError> {
        // The total is fixed up front: an event that dies again meanwhile must not keep the loop running.
        let total = self.store.admin().count(filter.select()).await?;
        let mut replayed = 0;
        for _ in 0..BATCHES_MAX {
            let left = usize::try_from(total - replayed).unwrap_or(usize::MAX);
            if left == 0 {
                break;
            }
            let count = self.batch(filter.select(), batch.clamp(1, left)).await?;
            replayed += count;
            if count == 0 {
                break;
            }
        }
        Ok(replayed)
    }

    async fn batch(&self, select: Select, limit: usize) -> Result<u64, StoreError> {
        self.store.admin().replay(Replay { select, limit, by: self.by.clone(), now: None }).await
    }
}
