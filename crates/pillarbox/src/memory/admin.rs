//! The memory store's admin port, implemented on the shared state.

use std::collections::BTreeSet;

use super::store::MemoryStore;
use crate::model::{EventId, GroupKey, Record};
use crate::port::{
    Admin, Answer, AuditEntry, Cancel, Discard, GroupChange, HeldGroup, HeldGroups, List, Migrated, NodeInfo,
    Purge, Replay, Select, Shown, Stats,
};

const VERSION: u32 = 3;

impl Admin for MemoryStore {
    fn migrate(&self) -> Answer<'_, Migrated> {
        Box::pin(async { Ok(Migrated { from: VERSION, to: VERSION }) })
    }

    fn schema_sql(&self) -> String {
        String::new()
    }

    fn check(&self) -> Answer<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    fn stats(&self) -> Answer<'_, Stats> {
        Box::pin(async { Ok(self.0.lock().stats(self.0.now(None))) })
    }

    fn list(&self, request: List) -> Answer<'_, Vec<Record>> {
        Box::pin(async move { Ok(self.0.lock().list(&request)) })
    }

    fn show(&self, id: EventId) -> Answer<'_, Option<Shown>> {
        Box::pin(async move { Ok(self.0.lock().show(&id)) })
    }

    fn count(&self, select: Select) -> Answer<'_, u64> {
        Box::pin(async move { Ok(self.0.lock().count(&select)) })
    }

    fn cancel(&self, request: Cancel) -> Answer<'_, Vec<EventId>> {
        Box::pin(async move { Ok(self.0.lock().cancel(&request, self.0.now(request.now))) })
    }

    fn replay(&self, request: Replay) -> Answer<'_, u64> {
        Box::pin(async move { Ok(self.0.lock().replay(&request, self.0.now(request.now))) })
    }

    fn discard(&self, request: Discard) -> Answer<'_, u64> {
        Box::pin(async move { Ok(self.0.lock().discard(&request, self.0.now(request.now))) })
    }

    fn purge(&self, request: Purge) -> Answer<'_, u64> {
        Box::pin(async move { Ok(self.0.lock().purge(&request, self.0.now(request.now))) })
    }

    fn groups(&self, page: HeldGroups) -> Answer<'_, Vec<HeldGroup>> {
        Box::pin(async move { Ok(self.0.lock().held_groups(&page)) })
    }

    fn held(&self, groups: Vec<GroupKey>) -> Answer<'_, Vec<HeldGroup>> {
        Box::pin(async move {
            let groups: BTreeSet<GroupKey> = groups.into_iter().collect();
            let state = self.0.lock();
            Ok(groups.iter().filter_map(|group| state.groups.get(group)).cloned().collect())
        })
    }

    fn change_group(&self, request: GroupChange) -> Answer<'_, bool> {
        Box::pin(async move { Ok(self.0.lock().change_group(&request, self.0.now(request.now))) })
    }

    fn nodes(&self) -> Answer<'_, Vec<NodeInfo>> {
        Box::pin(async { Ok(self.0.lock().node_infos(self.0.now(None))) })
    }

    fn audit(&self, limit: usize) -> Answer<'_, Vec<AuditEntry>> {
        Box::pin(async move { Ok(self.0.lock().audit.iter().rev().take(limit).cloned().collect()) })
    }
}
