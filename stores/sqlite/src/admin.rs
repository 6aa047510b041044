//! The operators' port: changes run on the writer, queries on a separate reader.

use pillarbox::model::{EventId, GroupKey, Record, Slot};
use pillarbox::port::{
    Admin, AuditEntry, Cancel, Discard, GroupChange, HeldGroup, HeldGroups, Lacking, List, Migrated,
    NodeInfo, Purge, Replay, Select, Shown, Stats, StoreFuture,
};
use pillarbox::rules::SlotRecord;

use crate::job::Durability;
use crate::kind::Kind;
use crate::store::SqliteTable;
use crate::time::now;
use crate::{groups, inspect, membership, migrate, operate, rights};

impl<K: Kind> Admin for SqliteTable<K> {
    fn migrate(&self) -> StoreFuture<'_, Migrated> {
        self.change("migrate", Durability::Full, K::migrate)
    }

    fn schema_sql(&self) -> String {
        migrate::script::<K>(&self.shared().sql)
    }

    fn check(&self) -> StoreFuture<'_, ()> {
        self.inspector().read("check", K::check)
    }

    fn lacking(&self) -> StoreFuture<'_, Lacking> {
        let path = self.shared().path.clone();
        self.inspector().read("rights", move |connection, _| rights::lacking(connection, &path))
    }

    fn stats(&self) -> StoreFuture<'_, Stats> {
        self.inspector().read("stats", |connection, sql| inspect::stats::<K>(connection, sql, now(None)))
    }

    fn list(&self, request: List) -> StoreFuture<'_, Vec<Record>> {
        self.inspector().read("list", move |connection, sql| inspect::list::<K>(connection, sql, &request))
    }

    fn show(&self, id: EventId) -> StoreFuture<'_, Option<Shown>> {
        self.inspector().read("show", move |connection, sql| inspect::show::<K>(connection, sql, &id))
    }

    fn count(&self, select: Select) -> StoreFuture<'_, u64> {
        self.inspector().read("count", move |connection, sql| inspect::count::<K>(connection, sql, &select))
    }

    fn cancel(&self, request: Cancel) -> StoreFuture<'_, Vec<EventId>> {
        self.change("cancel", Durability::Full, move |tx| operate::cancel(tx, &tx.sql, &request))
    }

    fn replay(&self, request: Replay) -> StoreFuture<'_, u64> {
        self.change("replay", Durability::Full, move |tx| operate::replay::<K>(tx, &request))
    }

    fn discard(&self, request: Discard) -> StoreFuture<'_, u64> {
        self.change("discard", Durability::Full, move |tx| operate::discard::<K>(tx, &request))
    }

    fn purge(&self, request: Purge) -> StoreFuture<'_, u64> {
        self.change("purge", Durability::Full, move |tx| operate::purge::<K>(tx, &request))
    }

    fn groups(&self, page: HeldGroups) -> StoreFuture<'_, Vec<HeldGroup>> {
        self.inspector().read("groups", move |connection, sql| groups::held_groups(connection, sql, &page))
    }

    fn held(&self, groups: Vec<GroupKey>) -> StoreFuture<'_, Vec<HeldGroup>> {
        self.inspector().read("held groups", move |connection, sql| groups::held_of(connection, sql, &groups))
    }

    fn change_group(&self, request: GroupChange) -> StoreFuture<'_, bool> {
        self.change("change group", Durability::Full, move |tx| groups::change_group(tx, &request))
    }

    fn nodes(&self) -> StoreFuture<'_, Vec<NodeInfo>> {
        self.inspector().read("nodes", |connection, sql| inspect::nodes(connection, sql, now(None)))
    }

    fn slot(&self, slot: Slot) -> StoreFuture<'_, Option<SlotRecord>> {
        self.inspector()
            .read("slot", move |connection, sql| Ok(Some(membership::members(connection, sql)?.slot(slot))))
    }

    fn audit(&self, limit: usize) -> StoreFuture<'_, Vec<AuditEntry>> {
        self.inspector().read("audit", move |connection, sql| inspect::audits(connection, sql, limit))
    }
}
