//! The outbox that the relays drain: a table of its own in the database.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use pillarbox::Event;
use pillarbox::model::{Layout, NewRow, Placement, Status, TableName};
use pillarbox::port::{AnyTable, List, Select, Write};
use pillarbox_stores::Options;

use crate::attempts::Tries;
use crate::endpoint::Number;

/// Items written in one transaction.
const AT_ONCE: usize = 100;

/// An outbox table.
pub(crate) struct Outbox {
    pub(crate) table: String,
    pub(crate) layout: Layout,
    store: AnyTable,
    /// The items by the ids of their rows.
    numbers: Mutex<BTreeMap<String, Number>>,
}

impl Outbox {
    pub(crate) async fn create(url: &str, layout: Layout) -> Self {
        let table = format!("relay_{}", &uuid::Uuid::new_v4().simple().to_string()[..12]);
        let name = TableName::new(table.clone()).expect("a plain name");
        let options = Options { table: name, layout: Some(layout), ..Options::default() };
        let store = pillarbox_stores::connect(url, &options).await.expect("the store opens");
        store.admin().migrate().await.expect("tables are made");
        Self { table, layout, store, numbers: Mutex::default() }
    }

    /// Writes items one transaction after another, those of each group numbered.
    pub(crate) async fn write(&self, items: usize, groups: usize) {
        let numbers: Vec<usize> = (0..items).collect();
        for numbers in numbers.chunks(AT_ONCE) {
            let rows = numbers.iter().map(|number| {
                let group = number % groups;
                let payload = format!("{{\"group\":{group},\"number\":{}}}", number / groups);
                let event = Event::text("EVENT", payload).group(format!("group-{group}"));
                let event = event.build_within(&self.store.facts().limits).expect("a good event");
                let mut known = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
                known.insert(event.id().to_string(), (group, number / groups));
                NewRow { event, placement: Placement::Slot }
            });
            let rows: Vec<_> = rows.collect();
            self.store.write(Write { rows, now: None }).await.expect("rows are written");
        }
    }

    /// The items that are not done.
    pub(crate) async fn pending(&self) -> Result<BTreeSet<Number>, String> {
        let select = Select { statuses: vec![Status::New, Status::Retry], ..Select::default() };
        let records = self.records(select).await?;
        let numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(records.iter().filter_map(|(id, _)| numbers.get(id).copied()).collect())
    }

    /// Adds the attempts of the rows to what the endpoint knows of them.
    pub(crate) async fn count_attempts(&self, items: &mut BTreeMap<Number, Tries>) -> Result<(), String> {
        // A taken row has one attempt more, and so has one that is done: the one that succeeded.
        let by_take = match self.layout {
            Layout::Native => 0,
            Layout::Flowcatalyst => 1,
        };
        for record in self.records(Select::default()).await? {
            let number = self.numbers.lock().unwrap_or_else(PoisonError::into_inner).get(&record.0).copied();
            if let Some(tries) = number.and_then(|number| items.get_mut(&number)) {
                tries.attempts = record.1.saturating_sub(by_take);
            }
        }
        Ok(())
    }

    /// The ids and the attempts of the rows.
    async fn records(&self, select: Select) -> Result<Vec<(String, usize)>, String> {
        const PAGE: usize = 5_000;
        let (mut records, mut after, mut after_id) = (Vec::new(), None, None);
        loop {
            let list = List { select: select.clone(), after, after_id, limit: PAGE, ..List::default() };
            let page = self.store.admin().list(list).await.map_err(|error| error.to_string())?;
            records.extend(page.iter().map(|record| (record.id.to_string(), record.attempts as usize)));
            let Some(last) = page.last() else { return Ok(records) };
            (after, after_id) = (Some(last.seq), Some(last.id.clone()));
        }
    }

    /// Whether the relay of this label is a member.
    pub(crate) async fn has_member(&self, label: &str) -> bool {
        let node = format!("{label}/default");
        let nodes = self.store.admin().nodes().await.expect("nodes are listed");
        nodes.iter().any(|info| info.label == node)
    }

    /// Asks until the relay is a member; there is no signal for that.
    pub(crate) async fn until_member(&self, label: &str) {
        while !self.has_member(label).await {
            tokio::task::yield_now().await;
        }
    }

    /// Everything is done, and nothing died.
    pub(crate) async fn check_settled(&self, items: usize) -> Result<(), String> {
        let count = |status| {
            let select = Select { statuses: vec![status], ..Select::default() };
            async move { self.store.admin().count(select).await.map_err(|error| error.to_string()) }
        };
        let [new, retry, done, dead] = [
            count(Status::New).await?,
            count(Status::Retry).await?,
            count(Status::Done).await?,
            count(Status::Dead).await?,
        ];
        if (new, retry, done, dead) == (0, 0, items as u64, 0) {
            return Ok(());
        }
        let died = Select { statuses: vec![Status::Dead], ..Select::default() };
        let list = List { select: died, limit: 10, ..List::default() };
        let died = self.store.admin().list(list).await.map_err(|error| error.to_string())?;
        let died: Vec<_> = died.iter().map(|record| (record.attempts, &record.last_error)).collect();
        Err(format!("{new} new, {retry} to be tried again, {done} done, {dead} dead: {died:?}"))
    }
}
