//! The operators' port: each call runs on the general connections.

use pillarbox::model::{EventId, GroupKey, Record, Slot};
use pillarbox::port::{
    Admin, AuditEntry, Cancel, Discard, GroupChange, HeldGroup, HeldGroups, Lacking, List, Migrated,
    NodeInfo, Purge, Replay, Select, Shown, Stats, StoreFuture,
};
use pillarbox::rules::SlotRecord;
use pillarbox_store_kit::call;

use crate::kind::Kind;
use crate::store::MysqlTable;
use crate::{groups, inspect, membership, migrate, operate, rights};

impl<K: Kind> Admin for MysqlTable<K> {
    fn migrate(&self) -> StoreFuture<'_, Migrated> {
        self.0.on_general("migrate", (), |session, sql, ()| Box::pin(migrate::migrate::<K>(session, sql)))
    }

    fn schema_sql(&self) -> String {
        K::tables(self.0.statements.likely())
    }

    fn check(&self) -> StoreFuture<'_, ()> {
        self.0.on_general("check", (), K::check)
    }

    fn lacking(&self) -> StoreFuture<'_, Lacking> {
        self.0.on_general("rights", (), |session, sql, ()| Box::pin(rights::lacking::<K>(session, sql)))
    }

    fn stats(&self) -> StoreFuture<'_, Stats> {
        self.0.on_general("stats", (), |session, sql, ()| Box::pin(inspect::stats::<K>(session, sql)))
    }

    fn list(&self, request: List) -> StoreFuture<'_, Vec<Record>> {
        self.0.on_general("list", request, call!(inspect::list::<K>))
    }

    fn show(&self, id: EventId) -> StoreFuture<'_, Option<Shown>> {
        self.0.on_general("show", id, |session, sql, id| Box::pin(inspect::show::<K>(session, sql, id)))
    }

    fn count(&self, select: Select) -> StoreFuture<'_, u64> {
        self.0.on_general("count", select, |session, sql, select| {
            Box::pin(inspect::count::<K>(session, sql, select))
        })
    }

    fn cancel(&self, request: Cancel) -> StoreFuture<'_, Vec<EventId>> {
        self.0.on_general("cancel", request, call!(operate::cancel_here))
    }

    fn replay(&self, request: Replay) -> StoreFuture<'_, u64> {
        self.0.on_general("replay", request, call!(operate::replay::<K>))
    }

    fn discard(&self, request: Discard) -> StoreFuture<'_, u64> {
        self.0.on_general("discard", request, call!(operate::discard::<K>))
    }

    fn purge(&self, request: Purge) -> StoreFuture<'_, u64> {
        self.0.with_locking("purge", request, K::purge)
    }

    fn purge_in_turn(&self, request: Purge) -> StoreFuture<'_, u64> {
        self.0.with_locking("purge", request, call!(operate::purge_in_turn::<K>))
    }

    fn groups(&self, page: HeldGroups) -> StoreFuture<'_, Vec<HeldGroup>> {
        self.0.on_general("groups", page, |session, sql, page| Box::pin(groups::groups(session, sql, page)))
    }

    fn held(&self, groups: Vec<GroupKey>) -> StoreFuture<'_, Vec<HeldGroup>> {
        self.0.on_general("held groups", groups, |session, sql, groups| {
            Box::pin(groups::held_of(session, sql, groups))
        })
    }

    fn change_group(&self, request: GroupChange) -> StoreFuture<'_, bool> {
        self.0.on_general("change group", request, call!(groups::change_group))
    }

    fn nodes(&self) -> StoreFuture<'_, Vec<NodeInfo>> {
        self.0.on_general("nodes", (), |session, sql, ()| Box::pin(inspect::nodes(session, sql)))
    }

    fn slot(&self, slot: Slot) -> StoreFuture<'_, Option<SlotRecord>> {
        self.0.on_general("slot", slot, |session, sql, slot| {
            Box::pin(async { Ok(Some(membership::members(session, sql).await?.slot(*slot))) })
        })
    }

    fn audit(&self, limit: usize) -> StoreFuture<'_, Vec<AuditEntry>> {
        self.0
            .on_general("audit", limit, |session, sql, limit| Box::pin(inspect::audits(session, sql, *limit)))
    }
}
