//! Dead events: look, count, bring back.

use std::sync::Arc;

use crate::model::{EventId, Record, Status};
use crate::port::{List, Replay, Select, StoreError, Table};

/// Batches of one replay, so that it ends.
const BATCHES_MAX: usize = 1_000_000;

/// Which dead events; everything that is set must match.
#[derive(Debug, Clone, Default)]
pub struct DeadFilter {
    /// This event type.
    pub event_type: Option<String>,
    /// This aggregate type.
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

/// The dead events of an outbox. A database error is an error, never an empty list or a zero.
#[derive(Clone)]
pub struct DeadEvents {
    store: Arc<dyn Table>,
    by: String,
}

impl DeadEvents {
    /// The dead events of this store; `by` is who the audit names.
    #[must_use]
    pub fn new(store: Arc<dyn Table>, by: impl Into<String>) -> Self {
        Self { store, by: by.into() }
    }

    /// Dead events, oldest first.
    pub async fn query(&self, filter: &DeadFilter, limit: usize) -> Result<Vec<Record>, StoreError> {
        self.store.admin().list(List { select: filter.select(), limit, ..List::default() }).await
    }

    /// How many there are, optionally of one type.
    pub async fn count(&self, event_type: Option<&str>) -> Result<u64, StoreError> {
        let filter = DeadFilter { event_type: event_type.map(str::to_owned), aggregate_type: None };
        self.store.admin().count(filter.select()).await
    }

    /// Brings one back to new, attempts reset; whether it did.
    pub async fn replay(&self, id: &EventId) -> Result<bool, StoreError> {
        let select = Select { ids: vec![id.clone()], ..DeadFilter::default().select() };
        Ok(self.batch(select, 1).await? == 1)
    }

    /// Brings back all that match and are dead now, in batches; how many.
    pub async fn replay_all(&self, filter: &DeadFilter, batch: usize) -> Result<u64, StoreError> {
        // As many as there are now: one that dies again meanwhile does not keep this going.
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
