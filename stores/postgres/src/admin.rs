//! The operators' port.

use std::sync::Arc;

use pillarbox::model::{EventId, GroupKey, Layout, Record};
use pillarbox::port::{
    Admin, Answer, AuditEntry, Cancel, Discard, GroupChange, HeldGroup, HeldGroups, Lacking, List, Migrated,
    NodeInfo, Purge, Replay, Select, Shown, Stats, Store,
};

use crate::connection::{Session, Work};
use crate::sql::Sql;
use crate::store::PostgresStore;
use crate::{flowcatalyst, groups, inspect, migrate, operate, rights};

impl PostgresStore {
    fn at_desk<T, F>(&self, operation: &'static str, work: F) -> Answer<'_, T>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut Session, &'c Sql) -> Work<'c, T> + Send + 'static,
    {
        self.on(&self.shared().desk, operation, work)
    }
}

impl Admin for PostgresStore {
    fn migrate(&self) -> Answer<'_, Migrated> {
        let (migrations, tables) = (Arc::clone(&self.shared().migrations), Arc::clone(&self.shared().tables));
        self.at_desk("migrate", move |session, sql| {
            Box::pin(async move {
                match sql.layout {
                    Layout::Native => migrate::migrate(session, sql, &migrations).await,
                    Layout::Flowcatalyst => flowcatalyst::migrate(session, sql, &tables).await,
                }
            })
        })
    }

    fn schema_sql(&self) -> String {
        match self.facts().layout() {
            Layout::Native => self.shared().migrations.script(),
            Layout::Flowcatalyst => self.shared().tables.script(),
        }
    }

    fn check(&self) -> Answer<'_, ()> {
        self.at_desk("check", |session, sql| {
            Box::pin(async move {
                match sql.layout {
                    Layout::Native => migrate::check(session, sql).await,
                    Layout::Flowcatalyst => flowcatalyst::check(session, sql).await,
                }
            })
        })
    }

    fn lacking(&self) -> Answer<'_, Lacking> {
        self.at_desk("check rights", |session, sql| Box::pin(rights::lacking(session, sql)))
    }

    fn stats(&self) -> Answer<'_, Stats> {
        self.at_desk("stats", |session, sql| Box::pin(inspect::stats(session, sql)))
    }

    fn list(&self, request: List) -> Answer<'_, Vec<Record>> {
        self.at_desk("list", move |session, sql| {
            Box::pin(async move { inspect::list(session, sql, &request).await })
        })
    }

    fn show(&self, id: EventId) -> Answer<'_, Option<Shown>> {
        self.at_desk("show", move |session, sql| {
            Box::pin(async move { inspect::show(session, sql, &id).await })
        })
    }

    fn count(&self, select: Select) -> Answer<'_, u64> {
        self.at_desk("count", move |session, sql| {
            Box::pin(async move { inspect::count(session, sql, &select).await })
        })
    }

    fn cancel(&self, request: Cancel) -> Answer<'_, Vec<EventId>> {
        Box::pin(async move {
            let cancelled = self.insist(|| {
                let request = request.clone();
                self.at_desk("cancel", move |session, sql| {
                    Box::pin(async move {
                        let prepared = session.prepared();
                        operate::cancel(&mut session.connection, sql, &request, prepared).await
                    })
                })
            });
            let (cancelled, fired) = cancelled.await?;
            self.tell_of(fired);
            Ok(cancelled)
        })
    }

    fn replay(&self, request: Replay) -> Answer<'_, u64> {
        self.at_desk("replay", move |session, sql| {
            Box::pin(async move { operate::replay(session, sql, &request).await })
        })
    }

    fn discard(&self, request: Discard) -> Answer<'_, u64> {
        self.at_desk("discard", move |session, sql| {
            Box::pin(async move { operate::discard(session, sql, &request).await })
        })
    }

    fn purge(&self, request: Purge) -> Answer<'_, u64> {
        Box::pin(async move {
            let purged = self.insist(|| {
                let request = request.clone();
                self.at_desk("purge", move |session, sql| {
                    Box::pin(async move { operate::purge(session, sql, &request).await })
                })
            });
            purged.await
        })
    }

    fn purge_in_turn(&self, request: Purge) -> Answer<'_, u64> {
        Box::pin(async move {
            let purged = self.insist(|| {
                let request = request.clone();
                self.at_desk("purge", move |session, sql| {
                    Box::pin(async move { operate::purge_in_turn(session, sql, &request).await })
                })
            });
            purged.await
        })
    }

    fn groups(&self, page: HeldGroups) -> Answer<'_, Vec<HeldGroup>> {
        self.at_desk("groups", move |session, sql| {
            Box::pin(async move {
                let query = groups::page_of(session.query(&sql.groups), &page);
                let rows = query.fetch_all(&mut session.connection).await?;
                groups::held_groups(&rows)
            })
        })
    }

    fn held(&self, groups: Vec<GroupKey>) -> Answer<'_, Vec<HeldGroup>> {
        self.at_desk("held groups", move |session, sql| {
            Box::pin(async move {
                let groups: Vec<&str> = groups.iter().map(GroupKey::as_str).collect();
                let query = session.query(&sql.groups_named).bind(groups);
                let rows = query.fetch_all(&mut session.connection).await?;
                groups::held_groups(&rows)
            })
        })
    }

    fn change_group(&self, request: GroupChange) -> Answer<'_, bool> {
        self.at_desk("change group", move |session, sql| {
            Box::pin(async move { groups::change_group(session, sql, &request).await })
        })
    }

    fn nodes(&self) -> Answer<'_, Vec<NodeInfo>> {
        self.at_desk("nodes", |session, sql| Box::pin(inspect::nodes(session, sql)))
    }

    fn audit(&self, limit: usize) -> Answer<'_, Vec<AuditEntry>> {
        self.at_desk("audit", move |session, sql| Box::pin(inspect::audits(session, sql, limit)))
    }
}
