//! The memory store's admin port, implemented on the shared state.

use std::collections::BTreeSet;

use super::store::MemoryStore;
use crate::model::{EventId, GroupKey, Record, Slot};
use crate::port::{
    Admin, AuditEntry, Cancel, Discard, GroupChange, HeldGroup, HeldGroups, List, Migrated, NodeInfo, Purge,
    Replay, Select, Shown, Stats, StoreFuture,
};
use crate::rules::SlotRecord;

const VERSION: u32 = 3;

impl Admin for MemoryStore {
    fn migrate(&self) -> StoreFuture<'_, Migrated> {
        Box::pin(async { Ok(Migrated { from: VERSION, to: VERSION }) })
    }

    fn schema_sql(&self) -> String {
        String::new()
    }

    fn check(&self) -> StoreFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    fn stats(&self) -> StoreFuture<'_, Stats> {
        Box::pin(async { Ok(self.0.lock().stats(self.0.now(None))) })
    }

    fn list(&self, request: List) -> StoreFuture<'_, Vec<Record>> {
        Box::pin(async move { Ok(self.0.lock().list(&request)) })
    }

    fn show(&self, id: EventId) -> StoreFuture<'_, Option<Shown>> {
        Box::pin(async move { Ok(self.0.lock().show(&id)) })
    }

    fn count(&self, select: Select) -> StoreFuture<'_, u64> {
        Box::pin(async move { Ok(self.0.lock().count(&select)) })
    }

    fn cancel(&self, request: Cancel) -> StoreFuture<'_, Vec<EventId>> {
        Box::pin(async move { Ok(self.0.lock().cancel(&request, self.0.now(request.now))) })
    }

    fn replay(&self, request: Replay) -> StoreFuture<'_, u64> {
        Box::pin(async move { Ok(self.0.lock().replay(&request, self.0.now(request.now))) })
    }

    fn discard(&self, request: Discard) -> StoreFuture<'_, u64> {
        Box::pin(async move { Ok(self.0.lock().discard(&request, self.0.now(request.now))) })
    }

    fn purge(&self, request: Purge) -> StoreFuture<'_, u64> {
        Box::pin(async move { Ok(self.0.lock().purge(&request, self.0.now(request.now))) })
    }

    fn groups(&self, page: HeldGroups) -> StoreFuture<'_, Vec<HeldGroup>> {
        Box::pin(async move { Ok(self.0.lock().held_groups(&page)) })
    }

    fn held(&self, groups: Vec<GroupKey>) -> StoreFuture<'_, Vec<HeldGroup>> {
        Box::pin(async move {
            let groups: BTreeSet<GroupKey> = groups.into_iter().collect();
            let state = self.0.lock();
            Ok(groups.iter().filter_map(|group| state.groups.get(group)).cloned().collect())
        })
    }

    fn change_group(&self, request: GroupChange) -> StoreFuture<'_, bool> {
        Box::pin(async move { Ok(self.0.lock().change_group(&request, self.0.now(request.now))) })
    }

    fn nodes(&self) -> StoreFuture<'_, Vec<NodeInfo>> {
        Box::pin(async { Ok(self.0.lock().node_infos(self.0.now(None))) })
    }

    fn slot(&self, slot: Slot) -> StoreFuture<'_, Option<SlotRecord>> {
        Box::pin(async move { Ok(Some(self.0.lock().members.slot(slot))) })
    }

    fn audit(&self, limit: usize) -> StoreFuture<'_, Vec<AuditEntry>> {
        Box::pin(async move { Ok(self.0.lock().audit.iter().rev().take(limit).cloned().collect()) })
    }
}
