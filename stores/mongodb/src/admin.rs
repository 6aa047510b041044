//! The operators' port: dispatches each operation to its module.

use pillarbox::model::{EventId, GroupKey, Record, Slot};
use pillarbox::port::{
    Admin, AuditEntry, Cancel, Discard, GroupChange, HeldGroup, HeldGroups, Lacking, List, Migrated,
    NodeInfo, Purge, Replay, Select, Shown, Stats, StoreFuture,
};
use pillarbox::rules::SlotRecord;

use crate::kind::Kind;
use crate::outbox::{Step, step};
use crate::store::MongodbTable;
use crate::{groups, inspect, membership, migrate, number, operate, rights};

impl<K: Kind> Admin for MongodbTable<K> {
    fn migrate(&self) -> StoreFuture<'_, Migrated> {
        self.run("migrate", Step::Single, (), |call, ()| Box::pin(migrate::migrate::<K>(call)))
    }

    fn schema_sql(&self) -> String {
        migrate::script::<K>(self.table())
    }

    fn check(&self) -> StoreFuture<'_, ()> {
        self.run("check", Step::Single, (), |call, ()| K::check(call))
    }

    fn lacking(&self) -> StoreFuture<'_, Lacking> {
        self.run("rights", Step::Single, (), |call, ()| Box::pin(rights::lacking(call)))
    }

    fn stats(&self) -> StoreFuture<'_, Stats> {
        self.run("stats", Step::Single, (), |call, ()| K::stats(call))
    }

    fn list(&self, request: List) -> StoreFuture<'_, Vec<Record>> {
        self.run("list", Step::Single, request, K::list)
    }

    fn show(&self, id: EventId) -> StoreFuture<'_, Option<Shown>> {
        self.run("show", Step::Single, id, K::show)
    }

    fn count(&self, select: Select) -> StoreFuture<'_, u64> {
        self.run("count", Step::Single, select, K::count)
    }

    fn cancel(&self, request: Cancel) -> StoreFuture<'_, Vec<EventId>> {
        self.run("cancel", Step::Together, request, K::cancel)
    }

    fn replay(&self, request: Replay) -> StoreFuture<'_, u64> {
        self.run("replay", Step::Together, request, K::replay)
    }

    fn discard(&self, request: Discard) -> StoreFuture<'_, u64> {
        self.run("discard", Step::Together, request, K::discard)
    }

    fn purge(&self, request: Purge) -> StoreFuture<'_, u64> {
        self.run("purge", Step::Single, request, K::purge)
    }

    fn purge_in_turn(&self, request: Purge) -> StoreFuture<'_, u64> {
        self.run("purge", Step::Single, request, step!(operate::purge_in_turn::<K>))
    }

    fn groups(&self, page: HeldGroups) -> StoreFuture<'_, Vec<HeldGroup>> {
        self.run("groups", Step::Single, page, |call, page| {
            Box::pin(async move {
                number::head(call).await?;
                groups::held_groups(call, page).await
            })
        })
    }

    fn held(&self, groups: Vec<GroupKey>) -> StoreFuture<'_, Vec<HeldGroup>> {
        self.run("held groups", Step::Single, groups, |call, groups| {
            Box::pin(async move {
                number::head(call).await?;
                let groups: Vec<&str> = groups.iter().map(GroupKey::as_str).collect();
                groups::held_of(call, &groups).await
            })
        })
    }

    fn change_group(&self, request: GroupChange) -> StoreFuture<'_, bool> {
        self.run("change group", Step::Together, request, step!(groups::change_group::<K>))
    }

    fn nodes(&self) -> StoreFuture<'_, Vec<NodeInfo>> {
        self.run("nodes", Step::Single, (), |call, ()| Box::pin(inspect::nodes(call)))
    }

    fn slot(&self, slot: Slot) -> StoreFuture<'_, Option<SlotRecord>> {
        self.run("slot", Step::Single, slot, |call, slot| {
            Box::pin(async { Ok(Some(membership::members(call).await?.0.slot(*slot))) })
        })
    }

    fn audit(&self, limit: usize) -> StoreFuture<'_, Vec<AuditEntry>> {
        self.run("audit", Step::Single, limit, |call, limit| Box::pin(inspect::audits(call, *limit)))
    }
}
