//! The operators' port.

use std::sync::Arc;

use pillarbox::model::{EventId, GroupKey, Record};
use pillarbox::port::{
    Admin, Answer, AuditEntry, Cancel, Discard, GroupChange, HeldGroup, HeldGroups, Lacking, List, Migrated,
    NodeInfo, Purge, Replay, Select, Shown, Stats, Store,
};

use crate::outbox::Step;
use crate::store::MongodbStore;
use crate::{groups, inspect, migrate, number, operate, rights};

impl Admin for MongodbStore {
    fn migrate(&self) -> Answer<'_, Migrated> {
        self.run("migrate", Step::Single, |call| Box::pin(migrate::migrate(call)))
    }

    fn schema_sql(&self) -> String {
        Self::schema_sql(self.table(), self.facts().layout())
    }

    fn check(&self) -> Answer<'_, ()> {
        self.run("check", Step::Single, |call| Box::pin(migrate::check(call)))
    }

    fn lacking(&self) -> Answer<'_, Lacking> {
        self.run("rights", Step::Single, |call| Box::pin(rights::lacking(call)))
    }

    fn stats(&self) -> Answer<'_, Stats> {
        self.run("stats", Step::Single, |call| Box::pin(inspect::stats(call)))
    }

    fn list(&self, request: List) -> Answer<'_, Vec<Record>> {
        let request = Arc::new(request);
        self.run("list", Step::Single, move |call| {
            let request = Arc::clone(&request);
            Box::pin(async move { inspect::list(call, &request).await })
        })
    }

    fn show(&self, id: EventId) -> Answer<'_, Option<Shown>> {
        self.run("show", Step::Single, move |call| {
            let id = id.clone();
            Box::pin(async move { inspect::show(call, &id).await })
        })
    }

    fn count(&self, select: Select) -> Answer<'_, u64> {
        let select = Arc::new(select);
        self.run("count", Step::Single, move |call| {
            let select = Arc::clone(&select);
            Box::pin(async move { inspect::count(call, &select).await })
        })
    }

    fn cancel(&self, request: Cancel) -> Answer<'_, Vec<EventId>> {
        let request = Arc::new(request);
        self.run("cancel", Step::Together, move |call| {
            let request = Arc::clone(&request);
            Box::pin(async move { operate::cancel(call, &request).await })
        })
    }

    fn replay(&self, request: Replay) -> Answer<'_, u64> {
        let request = Arc::new(request);
        self.run("replay", Step::Together, move |call| {
            let request = Arc::clone(&request);
            Box::pin(async move { operate::replay(call, &request).await })
        })
    }

    fn discard(&self, request: Discard) -> Answer<'_, u64> {
        let request = Arc::new(request);
        self.run("discard", Step::Together, move |call| {
            let request = Arc::clone(&request);
            Box::pin(async move { operate::discard(call, &request).await })
        })
    }

    fn purge(&self, request: Purge) -> Answer<'_, u64> {
        let request = Arc::new(request);
        self.run("purge", Step::Single, move |call| {
            let request = Arc::clone(&request);
            Box::pin(async move { operate::purge(call, &request).await })
        })
    }

    fn groups(&self, page: HeldGroups) -> Answer<'_, Vec<HeldGroup>> {
        let page = Arc::new(page);
        self.run("groups", Step::Single, move |call| {
            let page = Arc::clone(&page);
            Box::pin(async move {
                number::head(call).await?;
                groups::held_groups(call, &page).await
            })
        })
    }

    fn held(&self, groups: Vec<GroupKey>) -> Answer<'_, Vec<HeldGroup>> {
        let groups = Arc::new(groups);
        self.run("held groups", Step::Single, move |call| {
            let groups = Arc::clone(&groups);
            Box::pin(async move {
                number::head(call).await?;
                let groups: Vec<&str> = groups.iter().map(GroupKey::as_str).collect();
                groups::held_of(call, &groups).await
            })
        })
    }

    fn change_group(&self, request: GroupChange) -> Answer<'_, bool> {
        let request = Arc::new(request);
        self.run("change group", Step::Together, move |call| {
            let request = Arc::clone(&request);
            Box::pin(async move { groups::change_group(call, &request).await })
        })
    }

    fn nodes(&self) -> Answer<'_, Vec<NodeInfo>> {
        self.run("nodes", Step::Single, |call| Box::pin(inspect::nodes(call)))
    }

    fn audit(&self, limit: usize) -> Answer<'_, Vec<AuditEntry>> {
        self.run("audit", Step::Single, move |call| Box::pin(inspect::audits(call, limit)))
    }
}
