//! Whether a table has anything left that would be delivered.

use std::collections::BTreeSet;

use pillarbox::engine::Ungrouped;
use pillarbox::model::{GroupKey, Lane, Record, Slot, Status};
use pillarbox::port::{AnyTable, Contents, List, Select, StoreError};

/// Rows looked at in one go.
const PAGE: usize = 500;
/// Where rows wait for their time.
const DELAYED: Slot = Lane::DELAYED.slot();
/// Where messages of the queue are.
const QUEUE: Slot = Lane::QUEUE.slot();

/// Whether nothing is left to deliver. What waits behind a blocked or paused group, in the queue, or for its time does not count; a
/// retry does.
pub(crate) async fn is_empty(store: &AnyTable, ungrouped: Ungrouped) -> Result<bool, StoreError> {
    let select = Select { statuses: vec![Status::New, Status::Retry], ..Select::default() };
    if store.admin().count(select.clone()).await? == 0 {
        return Ok(true);
    }
    let shared =
        (store.items().is_some() && ungrouped == Ungrouped::Default).then(|| GroupKey::new(Ungrouped::GROUP));
    // A page of large events would be all of them in memory at once.
    let mut list = List { select, limit: PAGE, contents: Contents::LeftOut, ..List::default() };
    loop {
        let page = store.admin().list(list.clone()).await?;
        let due: Vec<_> = page.iter().filter(|record| is_due(record)).collect();
        let groups = due.iter().map(|record| record.group.as_ref().or(shared.as_ref()).cloned());
        // Without a group it can't be held.
        let Some(groups) = groups.collect::<Option<BTreeSet<GroupKey>>>() else { return Ok(false) };
        if store.admin().held(groups.iter().cloned().collect()).await?.len() < groups.len() {
            return Ok(false);
        }
        let Some(last) = page.last().filter(|_| page.len() == PAGE) else { return Ok(true) };
        list.after = Some(last.seq);
        list.after_id = Some(last.id.clone());
    }
}

/// Whether a relay would deliver it now or after a retry's wait.
fn is_due(record: &Record) -> bool {
    match record.slot {
        QUEUE => false,
        DELAYED => record.status == Status::Retry,
        _ => true,
    }
}
