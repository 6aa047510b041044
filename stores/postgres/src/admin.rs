//! Implements the operators' port, for both kinds of tables.

use pillarbox::model::{EventId, GroupKey, Record};
use pillarbox::port::{
    Admin, Answer, AuditEntry, Cancel, Discard, GroupChange, HeldGroup, HeldGroups, Lacking, List, Migrated,
    NodeInfo, Purge, Replay, Select, Shown, Stats,
};

use crate::kind::Kind;
use crate::store::PostgresTable;
use crate::{groups, inspect, migrate, operate, rights};

impl<K: Kind> Admin for PostgresTable<K> {
    fn migrate(&self) -> Answer<'_, Migrated> {
        self.on_general("migrate", (), K::migrate)
    }

    fn schema_sql(&self) -> String {
        migrate::script::<K>(&self.shared().sql)
    }

    fn check(&self) -> Answer<'_, ()> {
        self.on_general("check", (), K::check)
    }

    fn lacking(&self) -> Answer<'_, Lacking> {
        self.on_general("check rights", (), |session, sql, ()| {
            Box::pin(rights::lacking(session, sql, K::RIGHTS))
        })
    }

    fn stats(&self) -> Answer<'_, Stats> {
        self.on_general("stats", (), |session, sql, ()| Box::pin(inspect::stats(session, sql)))
    }

    fn list(&self, request: List) -> Answer<'_, Vec<Record>> {
        self.on_general("list", request, |session, sql, request| {
            Box::pin(inspect::list::<K>(session, sql, request))
        })
    }

    fn show(&self, id: EventId) -> Answer<'_, Option<Shown>> {
        self.on_general("show", id, |session, sql, id| Box::pin(inspect::show::<K>(session, sql, id)))
    }

    fn count(&self, select: Select) -> Answer<'_, u64> {
        self.on_general("count", select, |session, sql, select| {
            Box::pin(inspect::count(session, sql, select))
        })
    }

    fn cancel(&self, request: Cancel) -> Answer<'_, Vec<EventId>> {
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

    fn replay(&self, request: Replay) -> Answer<'_, u64> {
        self.on_general("replay", request, |session, sql, request| {
            Box::pin(operate::replay(session, sql, request))
        })
    }

    fn discard(&self, request: Discard) -> Answer<'_, u64> {
        self.on_general("discard", request, |session, sql, request| {
            Box::pin(operate::discard(session, sql, request))
        })
    }

    fn purge(&self, request: Purge) -> Answer<'_, u64> {
        self.on_general("purge", request, |session, sql, request| {
            Box::pin(operate::purge(session, sql, request))
        })
    }

    fn purge_in_turn(&self, request: Purge) -> Answer<'_, u64> {
        self.on_general("purge", request, |session, sql, request| {
            Box::pin(operate::purge_in_turn(session, sql, request))
        })
    }

    fn groups(&self, page: HeldGroups) -> Answer<'_, Vec<HeldGroup>> {
        self.on_general("groups", page, |session, sql, page| Box::pin(groups::groups(session, sql, page)))
    }

    fn held(&self, groups: Vec<GroupKey>) -> Answer<'_, Vec<HeldGroup>> {
        self.on_general("held groups", groups, |session, sql, groups| {
            Box::pin(groups::named(session, sql, groups))
        })
    }

    fn change_group(&self, request: GroupChange) -> Answer<'_, bool> {
        self.on_general("change group", request, |session, sql, request| {
            Box::pin(groups::change_group(session, sql, request))
        })
    }

    fn nodes(&self) -> Answer<'_, Vec<NodeInfo>> {
        self.on_general("nodes", (), |session, sql, ()| Box::pin(inspect::nodes(session, sql)))
    }

    fn audit(&self, limit: usize) -> Answer<'_, Vec<AuditEntry>> {
        self.on_general("audit", limit, |session, sql, limit| Box::pin(inspect::audits(session, sql, *limit)))
    }
}
