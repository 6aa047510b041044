//! Counts and ages of each table.

use axum::http::StatusCode;
use pillarbox::port::Stats;
use serde::Serialize;

use crate::call::Call;
use crate::described::described;
use crate::refusal::{Refusal, refusal, store_failed};
use crate::state::{AdminState, Place};

described! {
    /// Counts of all tables.
    #[derive(Serialize)]
    pub(crate) struct StatsPage {
        /// The tables that answered.
        tables: Vec<TableStats>,
        /// The tables that did not.
        unavailable: Vec<TableAway>,
    }
}

described! {
    /// A table that did not answer.
    #[derive(Serialize)]
    pub(crate) struct TableAway {
        /// Its source.
        source: String,
        /// The table.
        table: String,
        /// What to do about it.
        error: String,
    }
}

described! {
    /// The number of events of one type.
    #[derive(Serialize)]
    pub(crate) struct DeadOfType {
        /// The type.
        r#type: String,
        /// The number of events.
        count: u64,
    }
}

described! {
    /// Counts of one table.
    #[derive(Serialize)]
    pub(crate) struct TableStats {
        /// Its source.
        source: String,
        /// The table.
        table: String,
        /// Events to be delivered: new or waiting for a retry.
        pending: u64,
        /// Events that were not attempted yet.
        new: u64,
        /// Events that failed and wait for the next attempt.
        retry: u64,
        /// Delivered events that were not purged yet.
        done: u64,
        /// Events that were given up.
        dead: u64,
        /// Pending events that are not due yet.
        delayed: u64,
        /// Pending messages of the queue.
        queued: u64,
        /// Age of the oldest pending event that is due, in milliseconds.
        oldest_ms: Option<u64>,
        /// Dead events by type, the most frequent first.
        dead_by_type: Vec<DeadOfType>,
        /// Events written within the last minute.
        written_last_minute: u64,
        /// Events that became done within the last minute.
        done_last_minute: u64,
        /// Slots that no node holds.
        free_slots: u64,
        /// Blocked groups.
        blocked_groups: u64,
        /// Paused groups.
        paused_groups: u64,
        /// Nodes with a live lease.
        nodes: u64,
    }
}

pub(crate) async fn read(state: &AdminState, call: &Call) -> Result<StatsPage, Refusal> {
    let (mut tables, mut unavailable) = (Vec::new(), Vec::new());
    let mut last = None;
    for place in state.places(call)? {
        match place.table.store.admin().stats().await {
            Ok(stats) => tables.push(TableStats::new(place, stats)),
            Err(error) => {
                let refused = store_failed(&place.table.store, error).await;
                let (source, table) = (place.source, place.table.name);
                unavailable.push(TableAway { source, table, error: refused.why().to_owned() });
                last = Some(refused);
            }
        }
    }
    match last {
        Some(refused) if tables.is_empty() && unavailable.len() == 1 => Err(refused),
        Some(_) if tables.is_empty() => Err(refusal(StatusCode::SERVICE_UNAVAILABLE, "no database answers")),
        _ => Ok(StatsPage { tables, unavailable }),
    }
}

impl TableStats {
    fn new(place: Place, stats: Stats) -> Self {
        let [new, done, retry, dead] = stats.by_status();
        let dead_by_type = stats.dead_by_type.into_iter();
        Self {
            source: place.source,
            table: place.table.name,
            pending: new + retry,
            new,
            retry,
            done,
            dead,
            delayed: stats.delayed,
            queued: stats.queue.pending(),
            oldest_ms: stats.oldest.map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX)),
            dead_by_type: dead_by_type
                .map(|of| DeadOfType { r#type: of.event_type, count: of.count })
                .collect(),
            written_last_minute: stats.written_last_minute,
            done_last_minute: stats.done_last_minute,
            free_slots: stats.free_slots,
            blocked_groups: stats.blocked_groups,
            paused_groups: stats.paused_groups,
            nodes: stats.nodes,
        }
    }
}
