//! The facts that an explanation is made from, and how they are read.

use std::time::Duration;

use jiff::Timestamp;
use pillarbox::model::{EventId, Record, Seq, Slot, Status};
use pillarbox::port::{
    AnyTable, AuditEntry, ByteLimits, ErrorKind, Fetch, HeldGroup, NodeInfo, OpenTransactions, Scope,
    StoreError, TransactionInfo,
};
use pillarbox::rules::SlotRecord;

/// Audit entries that are searched for one about the event, the newest first.
const AUDITED: usize = 1_000;
/// Open transactions that are looked at.
const TRANSACTIONS: usize = 20;

/// The facts about one event. What the store or the rights of the database user do not tell is `None`.
#[derive(Debug, Clone)]
pub struct Situation {
    /// The time, by the database's clock.
    pub now: Timestamp,
    /// The event.
    pub id: EventId,
    /// Its row; `None` if there is none.
    pub record: Option<Record>,
    /// Who deleted the event, if there is no row and an entry of the audit log tells.
    pub deleted: Option<AuditEntry>,
    /// The state of its group, if that is held.
    pub held: Option<HeldGroup>,
    /// The event that its group waits for: the dead one that blocks it, or else its first pending one.
    pub ahead: Option<Record>,
    /// Its slot or lane, if nodes deliver from it.
    pub slot: Option<SlotRecord>,
    /// The nodes.
    pub nodes: Option<Vec<NodeInfo>>,
    /// The open transactions.
    pub open: Option<Vec<TransactionInfo>>,
}

impl Situation {
    /// Reads the facts about an event, with a bounded number of bounded statements.
    pub async fn read(table: &AnyTable, id: &EventId) -> Result<Self, StoreError> {
        let admin = table.admin();
        let now = table.now().await?;
        let record = admin.show(id.clone()).await?.map(|shown| shown.record);
        let blank = Self::without_facts(now, id.clone(), record);
        let Some(record) = &blank.record else {
            return Ok(Self { deleted: deleted(table, id).await?, open: open(table, id).await?, ..blank });
        };
        if record.status == Status::Done {
            return Ok(blank);
        }
        let held = match &record.group {
            Some(group) => known(admin.held(vec![group.clone()]).await)?.and_then(|mut held| held.pop()),
            None => None,
        };
        if record.status == Status::Dead {
            return Ok(Self { held, ..blank });
        }
        let slot = match record.slot {
            Slot(..0) => None,
            slot => known(admin.slot(slot).await)?.flatten(),
        };
        let ahead = ahead(table, record, held.as_ref()).await?;
        let (nodes, open) = (known(admin.nodes().await)?, open(table, id).await?);
        Ok(Self { held, ahead, slot, nodes, open, ..blank })
    }

    /// A situation of which only the row is known.
    #[must_use]
    pub fn without_facts(now: Timestamp, id: EventId, record: Option<Record>) -> Self {
        let (deleted, held, ahead, slot, nodes, open) = (None, None, None, None, None, None);
        Self { now, id, record, deleted, held, ahead, slot, nodes, open }
    }
}

/// A fact, or `None` if it can't be known: tables beside the event table may be missing or not be ours to read.
fn known<T>(answer: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match answer {
        Ok(fact) => Ok(Some(fact)),
        Err(error) => match error.kind() {
            ErrorKind::Permission | ErrorKind::Schema | ErrorKind::Unsupported => Ok(None),
            _ => Err(error),
        },
    }
}

/// The newest audit entry that deleted the event.
async fn deleted(table: &AnyTable, id: &EventId) -> Result<Option<AuditEntry>, StoreError> {
    let entries = known(table.admin().audit(AUDITED).await)?.unwrap_or_default();
    let deletes = |entry: &AuditEntry| {
        entry.target == id.as_str() && matches!(entry.action.as_str(), "cancel" | "discard")
    };
    Ok(entries.into_iter().find(deletes))
}

async fn open(table: &AnyTable, id: &EventId) -> Result<Option<Vec<TransactionInfo>>, StoreError> {
    let request = OpenTransactions { event: id.clone(), limit: TRANSACTIONS };
    Ok(known(table.admin().open_transactions(request).await)?.flatten())
}

/// The dead event that blocks the group, or else its first pending event if that comes before this one. Only
/// slots keep groups in order; items have no numbers that tell.
async fn ahead(
    table: &AnyTable,
    record: &Record,
    held: Option<&HeldGroup>,
) -> Result<Option<Record>, StoreError> {
    if let Some(blocking) = held.and_then(|held| held.event.clone()) {
        return shown(table, blocking).await;
    }
    let is_ordered = record.slot.0 >= 0 && !record.slot.is_lane();
    let (Some(group), Some(store), true) = (&record.group, table.native(), is_ordered) else {
        return Ok(None);
    };
    let scope = Scope::Group { slot: record.slot, group: group.clone(), from: Seq(0) };
    let bytes = ByteLimits { total: 1, row: 1 };
    let fetch = Fetch { scope, rows: 1, bytes, skip_recent: Duration::ZERO, now: None };
    let first = known(store.fetch(fetch).await)?.and_then(|fetched| fetched.rows.into_iter().next());
    match first.filter(|first| first.seq < record.seq) {
        Some(first) => shown(table, first.id).await,
        None => Ok(None),
    }
}

async fn shown(table: &AnyTable, id: EventId) -> Result<Option<Record>, StoreError> {
    Ok(table.admin().show(id).await?.map(|shown| shown.record))
}
