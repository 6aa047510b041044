//! Checks whether a table still has events to deliver, for `--until-empty`.

use std::collections::BTreeSet;

use pillarbox::engine::Ungrouped;
use pillarbox::model::{GroupKey, Lane, Record, Slot, Status};
use pillarbox::port::{AnyTable, Contents, List, Select, StoreError};

/// Rows per page.
const PAGE: usize = 500;
/// The lane of delayed rows: not due yet, or waiting for a retry.
const DELAYED: Slot = Lane::DELAYED.slot();
/// The lane of the queue's messages, which no relay delivers.
const QUEUE: Slot = Lane::QUEUE.slot();

/// Whether nothing is left to deliver. Events of held groups, events that are not due yet and messages of the
/// queue do not count; events that wait for a retry do.
pub(crate) async fn is_empty(store: &AnyTable, ungrouped: Ungrouped) -> Result<bool, StoreError> {
    let select = Select { statuses: vec![Status::New, Status::Retry], ..Select::default() };
    if store.admin().count(select.clone()).await? == 0 {
        return Ok(true);
    }
    let shared =
        (store.items().is_some() && ungrouped == Ungrouped::Default).then(|| GroupKey::new(Ungrouped::GROUP));
    // Without contents: a page of large events would have to fit into memory.
    let mut list = List { select, limit: PAGE, contents: Contents::LeftOut, ..List::default() };
    loop {
        let page = store.admin().list(list.clone()).await?;
        let due: Vec<_> = page.iter().filter(|record| is_due(record)).collect();
        let groups = due.iter().map(|record| record.group.as_ref().or(shared.as_ref()).cloned());
        // An event without a group can't be held, so it is deliverable.
        let Some(groups) = groups.collect::<Option<BTreeSet<GroupKey>>>() else { return Ok(false) };
        if store.admin().held(groups.iter().cloned().collect()).await?.len() < groups.len() {
            return Ok(false);
        }
        let Some(last) = page.last().filter(|_| page.len() == PAGE) else { return Ok(true) };
        list.after = Some(last.seq);
        list.after_id = Some(last.id.clone());
    }
}

/// Whether a relay would deliver the row now or, for a retry, after its backoff.
fn is_due(record: &Record) -> bool {
    match record.slot {
        QUEUE => false,
        DELAYED => record.status == Status::Retry,
        _ => true,
    }
}
