//! Counts the pending events of a table by the reason why they were not delivered.

use pillarbox::engine::Ungrouped;
use pillarbox::model::{Lane, Status};
use pillarbox::port::{AnyTable, Contents, HeldGroups, List, Select, StoreError, Table};

/// Held groups per page.
const GROUPS_PAGE: usize = 200;
/// Rows per page.
const ROWS_PAGE: usize = 500;
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

    /// Counts the events of a table whose items without a group are treated in this way.
    pub(crate) async fn count(store: &AnyTable, ungrouped: Ungrouped) -> Result<Self, StoreError> {
        let shares = store.items().is_some() && ungrouped == Ungrouped::Default;
        let stats = store.admin().stats().await?;
        let pending = stats.events.pending();
        let (mut held, mut delayed) = (0, stats.delayed);
        if pending > 0 {
            let mut page = HeldGroups { after: None, limit: GROUPS_PAGE };
            loop {
                let groups = store.admin().groups(page.clone()).await?;
                page.after =
                    groups.last().filter(|_| groups.len() == GROUPS_PAGE).map(|last| last.group.clone());
                for group in groups {
                    if shares && group.group.as_str() == Ungrouped::GROUP {
                        held += without_group(store).await?;
                    }
                    let select = Select { group: Some(group.group), ..pending_rows() };
                    held += store.admin().count(select.clone()).await?;
                    if delayed > 0 {
                        delayed = delayed.saturating_sub(delayed_of(&**store, select).await?);
                    }
                }
                if page.after.is_none() {
                    break;
                }
            }
        }
        let queued = stats.queue.pending();
        let waiting = pending.saturating_sub(held + delayed);
        Ok(Self { waiting, held, delayed, queued, beside: 0 })
    }
}

fn pending_rows() -> Select {
    Select { statuses: vec![Status::New, Status::Retry], ..Select::default() }
}

/// Counts the pending items without a group.
async fn without_group(store: &AnyTable) -> Result<u64, StoreError> {
    let mut list =
        List { select: pending_rows(), limit: ROWS_PAGE, contents: Contents::LeftOut, ..List::default() };
    let mut count = 0;
    loop {
        let rows = store.admin().list(list.clone()).await?;
        count += rows.iter().filter(|row| row.group.is_none()).count() as u64;
        let Some(last) = rows.last().filter(|_| rows.len() == ROWS_PAGE) else { return Ok(count) };
        (list.after, list.after_id) = (Some(last.seq), Some(last.id.clone()));
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
    store.admin().count(pending_rows()).await
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
