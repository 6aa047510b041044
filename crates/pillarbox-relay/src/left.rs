//! What is pending in a table, by the reason why it is not delivered.

use pillarbox::model::Status;
use pillarbox::port::{HeldGroups, Select, StoreError, Table};

/// The held groups whose events are counted; those of further ones count as waiting for the endpoint.
const GROUPS_MAX: usize = 200;

/// Pending events by the reason why they wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Left {
    /// For the endpoint, or for a relay.
    pub waiting: u64,
    /// In groups that are blocked or paused.
    pub held: u64,
    /// For their time, a retry's included.
    pub delayed: u64,
    /// In the queue, which no relay delivers.
    pub queued: u64,
    /// In tables of another layout, which are not drained.
    pub beside: u64,
}

impl Left {
    /// All of them.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.waiting + self.held + self.delayed + self.queued + self.beside
    }

    pub(crate) async fn count(store: &dyn Table) -> Result<Self, StoreError> {
        let stats = store.admin().stats().await?;
        let pending = |status: Status| stats.by_status[usize::from(status.code())];
        let pending = pending(Status::New) + pending(Status::Retry);
        let mut held = 0;
        if pending > 0 {
            let page = HeldGroups { after: None, limit: GROUPS_MAX };
            for group in store.admin().groups(page).await? {
                let statuses = vec![Status::New, Status::Retry];
                let select = Select { statuses, group: Some(group.group), ..Select::default() };
                held += store.admin().count(select).await?;
            }
        }
        let (delayed, queued) = (stats.delayed, stats.queued);
        let waiting = pending.saturating_sub(held + delayed + queued);
        Ok(Self { waiting, held, delayed, queued, beside: 0 })
    }
}

/// Everything that is pending; needs no tables but that of events.
pub(crate) async fn pending(store: &dyn Table) -> Result<u64, StoreError> {
    let select = Select { statuses: vec![Status::New, Status::Retry], ..Select::default() };
    store.admin().count(select).await
}

impl std::ops::Add for Left {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            waiting: self.waiting + other.waiting,
            held: self.held + other.held,
            delayed: self.delayed + other.delayed,
            queued: self.queued + other.queued,
            beside: self.beside + other.beside,
        }
    }
}
