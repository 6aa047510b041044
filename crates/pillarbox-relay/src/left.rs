//! Counts the pending events of a table by the reason why they were not delivered.

use pillarbox::model::{Lane, Status};
use pillarbox::port::{Contents, HeldGroups, List, Select, StoreError, Table};

/// The number of held groups whose events are counted. Events of further held groups count as `waiting`.
const GROUPS_MAX: usize = 200;
/// The number of rows of a held group that are searched for delayed ones.
const DELAYED_MAX: usize = 1_000;

/// The number of pending events by the reason why they were not delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Left {
    /// Events that are ready for delivery: the endpoint fails, or no relay runs.
    pub waiting: u64,
    /// Events of blocked and paused groups.
    pub held: u64,
    /// Events of other groups that are not due yet, including those that wait for a retry.
    pub delayed: u64,
    /// Messages of the queue, which no relay delivers.
    pub queued: u64,
    /// Events in tables of the other layout in the same database, which this relay does not drain.
    pub beside: u64,
}

impl Left {
    /// The sum of all reasons.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.waiting + self.held + self.delayed + self.queued + self.beside
    }

    pub(crate) async fn count(store: &dyn Table) -> Result<Self, StoreError> {
        let stats = store.admin().stats().await?;
        let pending = |status: Status| stats.by_status[usize::from(status.code())];
        let pending = pending(Status::New) + pending(Status::Retry);
        let (mut held, mut delayed) = (0, stats.delayed);
        if pending > 0 {
            let page = HeldGroups { after: None, limit: GROUPS_MAX };
            for group in store.admin().groups(page).await? {
                let statuses = vec![Status::New, Status::Retry];
                let select = Select { statuses, group: Some(group.group), ..Select::default() };
                held += store.admin().count(select.clone()).await?;
                if delayed > 0 {
                    delayed = delayed.saturating_sub(delayed_of(store, select).await?);
                }
            }
        }
        let queued = stats.queued;
        let waiting = pending.saturating_sub(held + delayed + queued);
        Ok(Self { waiting, held, delayed, queued, beside: 0 })
    }
}

/// The delayed rows among the first rows of a held group, which count as held.
async fn delayed_of(store: &dyn Table, select: Select) -> Result<u64, StoreError> {
    let list = List { select, limit: DELAYED_MAX, contents: Contents::LeftOut, ..List::default() };
    let rows = store.admin().list(list).await?;
    Ok(rows.iter().filter(|row| row.slot == Lane::DELAYED.slot()).count() as u64)
}

/// Counts all pending events. It reads only the table of events, so it works where other tables are missing.
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
