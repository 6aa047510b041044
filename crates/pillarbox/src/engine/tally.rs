//! Counts of one step of the core, which are exported and logged outside its lock.

use super::shared::Shared;
use super::state::failures::FailureNews;
use crate::model::{EventId, GroupKey, Seq};
use crate::port::MetricsExporter;
use crate::redact;

/// Counts of one step, to be exported and logged outside the lock.
///
/// Nearly every step has one: what is rare is in `notices`, so that a tally is small to move and free to drop.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) hot: u64,
    pub(crate) hot_dropped: u64,
    pub(crate) cold: u64,
    pub(crate) success: u64,
    pub(crate) failure: u64,
    pub(crate) stale: u64,
    /// Number of dead events whose last failures were endpoint failures.
    pub(crate) dead_of_endpoint: u64,
    pub(crate) notices: Vec<Notice>,
}

/// Something that operators should know.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// So many outcomes have waited long for other transactions' locks.
    Busy(usize),
    /// A sweep found rows below the cursor.
    Passed { events: u64, first: Seq },
    /// The sink began to fail, fails in another way, or recovered.
    Sink(FailureNews),
    /// A row can't be decoded.
    Undecodable { event: EventId, error: String },
    /// An event has become dead.
    Dead(Death),
}

/// An event that has become dead, for the log.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Death {
    pub(crate) event: EventId,
    /// `None` if the row can't be decoded.
    pub(crate) event_type: Option<String>,
    pub(crate) group: Option<GroupKey>,
    pub(crate) attempts: u32,
    pub(crate) error: String,
}

impl Tally {
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Exports the counts and logs what operators should know.
    pub(super) fn report(&self, shared: &Shared) {
        let dead = self.notices.iter().filter(|notice| matches!(notice, Notice::Dead(_))).count();
        for (count, export) in [
            (self.hot, MetricsExporter::hot_enqueued as fn(&dyn MetricsExporter, u64)),
            (self.hot_dropped, MetricsExporter::hot_dropped),
            (self.cold, MetricsExporter::cold_enqueued),
            (self.success, MetricsExporter::dispatch_success),
            (self.failure, MetricsExporter::dispatch_failure),
            (dead as u64, MetricsExporter::dispatch_dead),
            (self.dead_of_endpoint, MetricsExporter::dispatch_dead_of_endpoint),
        ] {
            if count > 0 {
                shared.measure(|metrics| export(metrics, count));
            }
        }
        let store = || shared.store_name();
        if self.hot_dropped > 0 {
            tracing::warn!(store = store(), events = self.hot_dropped, "hot queue full: left to the reader");
        }
        if self.stale > 0 {
            tracing::warn!(
                store = store(),
                events = self.stale,
                "outcomes came too late and changed nothing"
            );
        }
        self.notices.iter().for_each(|notice| notice.report(shared));
    }
}

impl Notice {
    fn report(&self, shared: &Shared) {
        let store = shared.store_name();
        match self {
            Self::Busy(events) => tracing::warn!(
                store,
                events,
                "outcomes wait for rows that another transaction has locked; they are settled when it ends"
            ),
            Self::Passed { events, first } => {
                shared.measure(|metrics| metrics.read_passed(*events));
                tracing::warn!(
                    store,
                    events,
                    first = first.0,
                    "found pending rows below the read position; reading again from the first of them"
                );
            }
            Self::Sink(_) if shared.sink.reports_failures() => {}
            Self::Sink(news) => log_sink(store, news),
            Self::Undecodable { event, error } => {
                tracing::error!(store, ?event, error, "row can't be decoded");
            }
            Self::Dead(Death { event, event_type, group, attempts, error }) => {
                let group = group.as_ref().map(GroupKey::as_str);
                let error = redact::first_line(error);
                tracing::error!(store, ?event, event_type, group, attempts, error, "event is dead");
            }
        }
    }
}

fn log_sink(store: &str, news: &FailureNews) {
    match news {
        FailureNews::Fails { class, error, failed_requests } => {
            tracing::warn!(store, class, error, failed_requests, "the sink fails: events wait");
        }
        FailureNews::Recovered { failed_requests, failed_for } => {
            tracing::info!(store, failed_requests, ?failed_for, "the sink accepts events again");
        }
    }
}
