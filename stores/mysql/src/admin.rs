//! The operators' port.

use std::sync::Arc;

use pillarbox::model::{EventId, GroupKey, Layout, Record};
use pillarbox::port::{
    Admin, Answer, AuditEntry, Cancel, Discard, GroupChange, HeldGroup, HeldGroups, Lacking, List, Migrated,
    NodeInfo, Purge, Replay, Select, Shown, Stats, Store,
};

use crate::store::MysqlStore;
use crate::{flowcatalyst, groups, inspect, migrate, operate, rights};

impl Admin for MysqlStore {
    fn migrate(&self) -> Answer<'_, Migrated> {
        if self.facts().layout() == Layout::Flowcatalyst {
            let tables = Arc::clone(&self.shared().tables);
            return self.at_desk("migrate", tables, |session, sql, tables| {
                Box::pin(flowcatalyst::migrate(session, sql, tables))
            });
        }
        let migrations = Arc::clone(&self.shared().migrations);
        self.at_desk("migrate", migrations, |session, sql, migrations| {
            Box::pin(migrate::migrate(session, sql, migrations))
        })
    }

    fn schema_sql(&self) -> String {
        match self.facts().layout() {
            Layout::Native => self.shared().migrations.script(),
            Layout::Flowcatalyst => self.shared().tables.script(),
        }
    }

    fn check(&self) -> Answer<'_, ()> {
        self.at_desk("check", (), |session, sql, ()| {
            Box::pin(async move {
                match sql.layout {
                    Layout::Native => migrate::check(session, sql).await,
                    Layout::Flowcatalyst => flowcatalyst::check(session, sql).await,
                }
            })
        })
    }

    fn lacking(&self) -> Answer<'_, Lacking> {
        self.at_desk("rights", (), |session, sql, ()| Box::pin(rights::lacking(session, sql)))
    }

    fn stats(&self) -> Answer<'_, Stats> {
        self.at_desk("stats", (), |session, sql, ()| Box::pin(inspect::stats(session, sql)))
    }

    fn list(&self, request: List) -> Answer<'_, Vec<Record>> {
        self.at_desk("list", request, |session, sql, request| Box::pin(inspect::list(session, sql, request)))
    }

    fn show(&self, id: EventId) -> Answer<'_, Option<Shown>> {
        self.at_desk("show", id, |session, sql, id| Box::pin(inspect::show(session, sql, id)))
    }

    fn count(&self, select: Select) -> Answer<'_, u64> {
        self.at_desk("count", select, |session, sql, select| Box::pin(inspect::count(session, sql, select)))
    }

    fn cancel(&self, request: Cancel) -> Answer<'_, Vec<EventId>> {
        self.at_desk("cancel", request, |session, sql, request| {
            Box::pin(operate::cancel_here(session, sql, request))
        })
    }

    fn replay(&self, request: Replay) -> Answer<'_, u64> {
        self.at_desk("replay", request, |session, sql, request| {
            Box::pin(operate::replay(session, sql, request))
        })
    }

    fn discard(&self, request: Discard) -> Answer<'_, u64> {
        self.at_desk("discard", request, |session, sql, request| {
            Box::pin(operate::discard(session, sql, request))
        })
    }

    fn purge(&self, request: Purge) -> Answer<'_, u64> {
        if self.facts().layout() == Layout::Flowcatalyst {
            return self.at_desk("purge", request, |session, sql, request| {
                Box::pin(flowcatalyst::purge(session, sql, request))
            });
        }
        Box::pin(async move {
            let locking = self.locking("purge").await?;
            let purged = self.at_desk("purge", (request, locking), |session, sql, (request, locking)| {
                Box::pin(operate::purge(session, sql, request, *locking))
            });
            purged.await
        })
    }

    fn purge_in_turn(&self, request: Purge) -> Answer<'_, u64> {
        Box::pin(async move {
            let locking = self.locking("purge").await?;
            let purged = self.at_desk("purge", (request, locking), |session, sql, (request, locking)| {
                Box::pin(operate::purge_in_turn(session, sql, request, *locking))
            });
            purged.await
        })
    }

    fn groups(&self, page: HeldGroups) -> Answer<'_, Vec<HeldGroup>> {
        self.at_desk("groups", page, |session, sql, page| Box::pin(groups::groups(session, sql, page)))
    }

    fn held(&self, groups: Vec<GroupKey>) -> Answer<'_, Vec<HeldGroup>> {
        self.at_desk("held groups", groups, |session, sql, groups| {
            Box::pin(groups::held_of(session, sql, groups))
        })
    }

    fn change_group(&self, request: GroupChange) -> Answer<'_, bool> {
        self.at_desk("change group", request, |session, sql, request| {
            Box::pin(groups::change_group(session, sql, request))
        })
    }

    fn nodes(&self) -> Answer<'_, Vec<NodeInfo>> {
        self.at_desk("nodes", (), |session, sql, ()| Box::pin(inspect::nodes(session, sql)))
    }

    fn audit(&self, limit: usize) -> Answer<'_, Vec<AuditEntry>> {
        self.at_desk("audit", limit, |session, sql, limit| Box::pin(inspect::audits(session, sql, *limit)))
    }
}
