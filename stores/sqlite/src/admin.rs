//! The operators' port: changes on the writer, looks on a reader of their own.

use pillarbox::model::{EventId, GroupKey, Layout, Record};
use pillarbox::port::{
    Admin, Answer, AuditEntry, Cancel, Discard, GroupChange, HeldGroup, HeldGroups, Lacking, List, Migrated,
    NodeInfo, Purge, Replay, Select, Shown, Stats,
};

use crate::job::Durability;
use crate::store::SqliteStore;
use crate::time::now;
use crate::{flowcatalyst, groups, inspect, migrate, operate, rights};

impl Admin for SqliteStore {
    fn migrate(&self) -> Answer<'_, Migrated> {
        self.change("migrate", Durability::Full, |tx| match tx.sql.layout {
            Layout::Native => migrate::migrate(tx),
            Layout::Flowcatalyst => flowcatalyst::migrate(tx),
        })
    }

    fn schema_sql(&self) -> String {
        migrate::script(&self.shared().sql)
    }

    fn check(&self) -> Answer<'_, ()> {
        self.shared().inspector.read("check", |connection, sql| match sql.layout {
            Layout::Native => migrate::check(connection, sql),
            Layout::Flowcatalyst => flowcatalyst::check(connection, sql),
        })
    }

    fn lacking(&self) -> Answer<'_, Lacking> {
        let path = self.shared().path.clone();
        self.shared().inspector.read("rights", move |connection, _| rights::lacking(connection, &path))
    }

    fn stats(&self) -> Answer<'_, Stats> {
        self.shared().inspector.read("stats", |connection, sql| inspect::stats(connection, sql, now(None)))
    }

    fn list(&self, request: List) -> Answer<'_, Vec<Record>> {
        self.shared().inspector.read("list", move |connection, sql| inspect::list(connection, sql, &request))
    }

    fn show(&self, id: EventId) -> Answer<'_, Option<Shown>> {
        self.shared().inspector.read("show", move |connection, sql| inspect::show(connection, sql, &id))
    }

    fn count(&self, select: Select) -> Answer<'_, u64> {
        self.shared().inspector.read("count", move |connection, sql| inspect::count(connection, sql, &select))
    }

    fn cancel(&self, request: Cancel) -> Answer<'_, Vec<EventId>> {
        self.change("cancel", Durability::Full, move |tx| {
            operate::cancel(tx, &tx.sql, &request, now(request.now))
        })
    }

    fn replay(&self, request: Replay) -> Answer<'_, u64> {
        self.change("replay", Durability::Full, move |tx| operate::replay(tx, &request, now(request.now)))
    }

    fn discard(&self, request: Discard) -> Answer<'_, u64> {
        self.change("discard", Durability::Full, move |tx| operate::discard(tx, &request, now(request.now)))
    }

    fn purge(&self, request: Purge) -> Answer<'_, u64> {
        self.change("purge", Durability::Full, move |tx| operate::purge(tx, &request, now(request.now)))
    }

    fn groups(&self, page: HeldGroups) -> Answer<'_, Vec<HeldGroup>> {
        self.shared()
            .inspector
            .read("groups", move |connection, sql| groups::held_groups(connection, sql, &page))
    }

    fn held(&self, groups: Vec<GroupKey>) -> Answer<'_, Vec<HeldGroup>> {
        self.shared()
            .inspector
            .read("held groups", move |connection, sql| groups::held_of(connection, sql, &groups))
    }

    fn change_group(&self, request: GroupChange) -> Answer<'_, bool> {
        self.change("change group", Durability::Full, move |tx| {
            groups::change_group(tx, &request, now(request.now))
        })
    }

    fn nodes(&self) -> Answer<'_, Vec<NodeInfo>> {
        self.shared().inspector.read("nodes", |connection, sql| inspect::nodes(connection, sql, now(None)))
    }

    fn audit(&self, limit: usize) -> Answer<'_, Vec<AuditEntry>> {
        self.shared().inspector.read("audit", move |connection, sql| inspect::audits(connection, sql, limit))
    }
}
