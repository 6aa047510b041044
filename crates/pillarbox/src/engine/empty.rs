//! Checks whether a table still has events to deliver.

use std::collections::BTreeSet;

use crate::model::{GroupKey, Lane, Record, Slot, Status};
use crate::port::{Contents, List, Select, StoreError, Table};

/// Rows per page.
const PAGE: usize = 500;
/// The lane of delayed rows: not due yet, or waiting for a retry.
const DELAYED: Slot = Lane::DELAYED.slot();
/// The lane of the queue's messages.
const QUEUE: Slot = Lane::QUEUE.slot();

/// Whether nothing is left to deliver. Events of held groups, events that are not due yet and messages of the
/// queue do not count; events that wait for a retry do.
///
/// `shared` is the group of the events that have none, if these are kept in order too.
pub async fn is_empty(table: &dyn Table, shared: Option<GroupKey>) -> Result<bool, StoreError> {
    let select = Select { statuses: vec![Status::New, Status::Retry], ..Select::default() };
    // Without contents: a page of large events would have to fit into memory.
    let mut list = List { select, limit: PAGE, contents: Contents::LeftOut, ..List::default() };
    loop {
        let page = table.admin().list(list.clone()).await?;
        let due = page.iter().filter(|record| is_due(record));
        let groups = due.map(|record| record.group.as_ref().or(shared.as_ref()).cloned());
        // An event without a group can't be held, so it is deliverable.
        let Some(groups) = groups.collect::<Option<BTreeSet<GroupKey>>>() else { return Ok(false) };
        let all = groups.len();
        if all > 0 && table.admin().held(groups.into_iter().collect()).await?.len() < all {
            return Ok(false);
        }
        let Some(last) = page.last().filter(|_| page.len() == PAGE) else { return Ok(true) };
        list.after = Some(last.seq);
        list.after_id = Some(last.id.clone());
    }
}

/// Whether the row is delivered now or, for a retry, after its backoff.
fn is_due(record: &Record) -> bool {
    match record.slot {
        QUEUE => false,
        DELAYED => record.status == Status::Retry,
        _ => true,
    }
}
