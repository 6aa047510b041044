//! The operators' port: each call runs on the general connections.

use pillarbox::model::{EventId, GroupKey, Record};
use pillarbox::port::{
    Admin, Answer, AuditEntry, Cancel, Discard, GroupChange, HeldGroup, HeldGroups, Lacking, List, Migrated,
    NodeInfo, Purge, Replay, Select, Shown, Stats,
};

use crate::kind::Kind;
use crate::store::MysqlTable;
use crate::{groups, inspect, migrate, operate, rights};

impl<K: Kind> Admin for MysqlTable<K> {
    fn migrate(&self) -> Answer<'_, Migrated> {
        self.0.on_general("migrate", (), |session, sql, ()| Box::pin(migrate::migrate::<K>(session, sql)))
    }

    fn schema_sql(&self) -> String {
        K::tables(&self.0.sql)
    }

    fn check(&self) -> Answer<'_, ()> {
        self.0.on_general("check", (), K::check)
    }

    fn lacking(&self) -> Answer<'_, Lacking> {
        self.0.on_general("rights", (), |session, sql, ()| Box::pin(rights::lacking::<K>(session, sql)))
    }

    fn stats(&self) -> Answer<'_, Stats> {
        self.0.on_general("stats", (), |session, sql, ()| Box::pin(inspect::stats::<K>(session, sql)))
    }

    fn list(&self, request: List) -> Answer<'_, Vec<Record>> {
        self.0.on_general("list", request, |session, sql, request| {
            Box::pin(inspect::list::<K>(session, sql, request))
        })
    }

    fn show(&self, id: EventId) -> Answer<'_, Option<Shown>> {
        self.0.on_general("show", id, |session, sql, id| Box::pin(inspect::show::<K>(session, sql, id)))
    }

    fn count(&self, select: Select) -> Answer<'_, u64> {
        self.0.on_general("count", select, |session, sql, select| {
            Box::pin(inspect::count::<K>(session, sql, select))
        })
    }

    fn cancel(&self, request: Cancel) -> Answer<'_, Vec<EventId>> {
        self.0.on_general("cancel", request, |session, sql, request| {
            Box::pin(operate::cancel_here(session, sql, request))
        })
    }

    fn replay(&self, request: Replay) -> Answer<'_, u64> {
        self.0.on_general("replay", request, |session, sql, request| {
            Box::pin(operate::replay::<K>(session, sql, request))
        })
    }

    fn discard(&self, request: Discard) -> Answer<'_, u64> {
        self.0.on_general("discard", request, |session, sql, request| {
            Box::pin(operate::discard::<K>(session, sql, request))
        })
    }

    fn purge(&self, request: Purge) -> Answer<'_, u64> {
        self.0.with_locking("purge", request, K::purge)
    }

    fn purge_in_turn(&self, request: Purge) -> Answer<'_, u64> {
        self.0.with_locking("purge", request, |session, sql, request| {
            Box::pin(operate::purge_in_turn::<K>(session, sql, request))
        })
    }

    fn groups(&self, page: HeldGroups) -> Answer<'_, Vec<HeldGroup>> {
        self.0.on_general("groups", page, |session, sql, page| Box::pin(groups::groups(session, sql, page)))
    }

    fn held(&self, groups: Vec<GroupKey>) -> Answer<'_, Vec<HeldGroup>> {
        self.0.on_general("held groups", groups, |session, sql, groups| {
            Box::pin(groups::held_of(session, sql, groups))
        })
    }

    fn change_group(&self, request: GroupChange) -> Answer<'_, bool> {
        self.0.on_general("change group", request, |session, sql, request| {
            Box::pin(groups::change_group(session, sql, request))
        })
    }

    fn nodes(&self) -> Answer<'_, Vec<NodeInfo>> {
        self.0.on_general("nodes", (), |session, sql, ()| Box::pin(inspect::nodes(session, sql)))
    }

    fn audit(&self, limit: usize) -> Answer<'_, Vec<AuditEntry>> {
        self.0
            .on_general("audit", limit, |session, sql, limit| Box::pin(inspect::audits(session, sql, *limit)))
    }
}
