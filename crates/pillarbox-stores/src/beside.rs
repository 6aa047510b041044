//! The outbox of the other layout in the same database.

use pillarbox::model::flowcatalyst::{DISPATCH_JOBS, EVENTS};
use pillarbox::model::{Layout, Status, TableName};
use pillarbox::port::{AnyTable, Select, StoreError};

use crate::connect::{MissingFile, Options, connect, open};

/// The outbox of the other layout in the same database, if there is one. Draining one of the two does not
/// deliver the events of the other.
pub async fn beside(url: &str, options: &Options, layout: Layout) -> Option<AnyTable> {
    let layout = Layout::ALL.into_iter().find(|other| *other != layout)?;
    let options = Options {
        layout: Some(layout),
        table: TableName::usual(layout),
        missing: MissingFile::Refuse,
        ..options.clone()
    };
    let other = open(url, &options).await.ok()?;
    other.admin().check().await.is_ok().then_some(other)
}

/// A table of the flowcatalyst layout with pending events, beside which no native tables should be created. The
/// new tables would look like an empty outbox, and the pending events would wait forever without a warning.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the table {table} of the layout flowcatalyst has {}: tables of the layout native beside it would not deliver them", counted(.pending))]
pub struct PendingItems {
    /// The name of the table.
    pub table: &'static str,
    /// The number of its pending events.
    pub pending: u64,
}

fn counted(pending: &u64) -> String {
    let events = if *pending == 1 { "event" } else { "events" };
    format!("{pending} pending {events}")
}

/// Looks for pending events in tables of the flowcatalyst layout before the tables of `store` are created.
/// `None` if `store` has that layout itself, or if its tables exist already.
pub async fn pending_items_beside(
    url: &str,
    options: &Options,
    store: &AnyTable,
) -> Result<Option<PendingItems>, StoreError> {
    let is_there = store.admin().count(Select::default()).await.is_ok();
    if store.items().is_some() || is_there {
        return Ok(None);
    }
    for table in [EVENTS, DISPATCH_JOBS] {
        let Ok(name) = TableName::new(table) else { continue };
        let layout = Some(Layout::Flowcatalyst);
        let options = Options { table: name, layout, missing: MissingFile::Refuse, ..options.clone() };
        // A store that does not support this layout has no such table.
        let Ok(items) = connect(url, &options).await else { continue };
        if items.admin().check().await.is_err() {
            continue;
        }
        let statuses = vec![Status::New, Status::Retry];
        let pending = items.admin().count(Select { statuses, ..Select::default() }).await?;
        if pending > 0 {
            return Ok(Some(PendingItems { table, pending }));
        }
    }
    Ok(None)
}
