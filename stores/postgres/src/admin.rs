//! Implements the operators' port, for both kinds of tables.

use pillarbox::model::{EventId, GroupKey, Record, Slot};
use pillarbox::port::{
    Admin, AuditEntry, Cancel, Discard, GroupChange, HeldGroup, HeldGroups, Lacking, List, Migrated,
    NodeInfo, OpenTransactions, Purge, Replay, Select, Shown, Stats, StoreFuture, TransactionInfo,
};
use pillarbox::rules::SlotRecord;
use pillarbox_store_kit::call;

use crate::kind::Kind;
use crate::store::PostgresTable;
use crate::{groups, inspect, membership, migrate, operate, rights};

impl<K: Kind> Admin for PostgresTable<K> {
    fn migrate(&self) -> StoreFuture<'_, Migrated> {
        self.on_general("migrate", (), K::migrate)
    }

    fn schema_sql(&self) -> String {
        migrate::script::<K>(&self.shared().sql)
    }

    fn check(&self) -> StoreFuture<'_, ()> {
        self.on_general("check", (), K::check)
    }

    fn lacking(&self) -> StoreFuture<'_, Lacking> {
        self.on_general("check rights", (), |session, sql, ()| {
            Box::pin(rights::lacking(session, sql, K::RIGHTS))
        })
    }

    fn stats(&self) -> StoreFuture<'_, Stats> {
        self.on_general("stats", (), |session, sql, ()| Box::pin(inspect::stats(session, sql)))
    }

    fn list(&self, request: List) -> StoreFuture<'_, Vec<Record>> {
        self.on_general("list", request, call!(inspect::list::<K>))
    }

    fn show(&self, id: EventId) -> StoreFuture<'_, Option<Shown>> {
        self.on_general("show", id, |session, sql, id| Box::pin(inspect::show::<K>(session, sql, id)))
    }

    fn count(&self, select: Select) -> StoreFuture<'_, u64> {
        self.on_general("count", select, |session, sql, select| {
            Box::pin(inspect::count(session, sql, select))
        })
    }

    fn cancel(&self, request: Cancel) -> StoreFuture<'_, Vec<EventId>> {
        let cancelled = self.on_general("cancel", request, |session, sql, request| {
            let prepared = session.prepared();
            Box::pin(operate::cancel(&mut session.connection, sql, request, prepared))
        });
        Box::pin(async move {
            let (cancelled, fired) = cancelled.await?;
            self.tell_of(fired);
            Ok(cancelled)
        })
    }

    fn replay(&self, request: Replay) -> StoreFuture<'_, u64> {
        self.on_general("replay", request, call!(operate::replay))
    }

    fn discard(&self, request: Discard) -> StoreFuture<'_, u64> {
        self.on_general("discard", request, call!(operate::discard))
    }

    fn purge(&self, request: Purge) -> StoreFuture<'_, u64> {
        self.on_general("purge", request, call!(operate::purge))
    }

    fn purge_in_turn(&self, request: Purge) -> StoreFuture<'_, u64> {
        self.on_general("purge", request, call!(operate::purge_in_turn))
    }

    fn groups(&self, page: HeldGroups) -> StoreFuture<'_, Vec<HeldGroup>> {
        self.on_general("groups", page, |session, sql, page| Box::pin(groups::groups(session, sql, page)))
    }

    fn held(&self, groups: Vec<GroupKey>) -> StoreFuture<'_, Vec<HeldGroup>> {
        self.on_general("held groups", groups, |session, sql, groups| {
            Box::pin(groups::named(session, sql, groups))
        })
    }

    fn change_group(&self, request: GroupChange) -> StoreFuture<'_, bool> {
        self.on_general("change group", request, call!(groups::change_group))
    }

    fn nodes(&self) -> StoreFuture<'_, Vec<NodeInfo>> {
        self.on_general("nodes", (), |session, sql, ()| Box::pin(inspect::nodes(session, sql)))
    }

    fn slot(&self, slot: Slot) -> StoreFuture<'_, Option<SlotRecord>> {
        self.on_general("slot", slot, |session, sql, slot| {
            Box::pin(async { Ok(Some(membership::slot(session, sql, *slot).await?)) })
        })
    }

    fn open_transactions(&self, request: OpenTransactions) -> StoreFuture<'_, Option<Vec<TransactionInfo>>> {
        self.on_general("open transactions", request, |session, sql, request| {
            Box::pin(async { Ok(Some(inspect::open_transactions(session, sql, request).await?)) })
        })
    }

    fn audit(&self, limit: usize) -> StoreFuture<'_, Vec<AuditEntry>> {
        self.on_general("audit", limit, |session, sql, limit| Box::pin(inspect::audits(session, sql, *limit)))
    }
}
