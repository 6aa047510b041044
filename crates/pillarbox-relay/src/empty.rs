//! Whether a table has anything left that would be delivered.

use pillarbox::model::{Layout, Slot, Status};
use pillarbox::port::{List, Select, Store, StoreError};

/// Retries that wait apart, looked at to tell them from events whose time has not come.
const PAGE: usize = 1_000;
const WAITING: Slot = Slot(-1);
const PENDING: [Status; 2] = [Status::New, Status::Retry];

/// Whether nothing is left to deliver. What waits behind a blocked or paused group, in the queue, or for its time does not count; a
/// retry does.
pub(crate) async fn is_empty(store: &dyn Store) -> Result<bool, StoreError> {
    let pending = count(store, Select { statuses: PENDING.to_vec(), ..Select::default() }).await?;
    if pending == 0 {
        return Ok(true);
    }
    let held = behind_held_groups(store).await?;
    if store.facts().layout() == Layout::Flowcatalyst {
        return Ok(pending <= held);
    }
    let stats = store.admin().stats().await?;
    Ok(pending <= held.saturating_add(stats.delayed).saturating_add(stats.queued)
        && !has_waiting_retries(store).await?)
}

async fn count(store: &dyn Store, select: Select) -> Result<u64, StoreError> {
    store.admin().count(select).await
}

async fn behind_held_groups(store: &dyn Store) -> Result<u64, StoreError> {
    let mut behind = 0_u64;
    for held in store.admin().groups().await? {
        let select = Select { statuses: PENDING.to_vec(), group: Some(held.group), ..Select::default() };
        behind = behind.saturating_add(count(store, select).await?);
    }
    Ok(behind)
}

async fn has_waiting_retries(store: &dyn Store) -> Result<bool, StoreError> {
    let select = Select { statuses: vec![Status::Retry], ..Select::default() };
    let page = store.admin().list(List { select, limit: PAGE, ..List::default() }).await?;
    Ok(page.iter().any(|record| record.slot == WAITING))
}
