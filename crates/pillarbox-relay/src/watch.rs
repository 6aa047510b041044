//! Logs when a sink begins to fail, fails differently and recovers, and publishes its state with the node.

use std::time::Duration;

use jiff::Timestamp;
use pillarbox::model::NodeId;
use pillarbox_admin::LastFailure;
use serde::Serialize;
use tokio::time::{Instant, sleep, timeout};

use crate::failures::News;
use crate::left::pending;
use crate::predecessor::Process;
use crate::source::{DrainedTable, Health};

/// Interval between two checks of a sink.
const TICK: Duration = Duration::from_millis(500);
/// If only counts and times have changed, they are published at most once in this time.
const COUNTS_APART: Duration = Duration::from_secs(5);
/// Timeout for counting the pending events.
const COUNTED_WITHIN: Duration = Duration::from_secs(2);

/// The state of a node as JSON: shown in lists of nodes, and read by relays that start on the same host.
#[derive(Debug, Serialize)]
struct NodeState<'a> {
    process: Option<&'a Process>,
    sink: Option<&'a SinkState>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct SinkState {
    breaker: &'static str,
    last_failure: LastFailure,
    next_attempt_at: Option<Timestamp>,
}

impl SinkState {
    fn new(health: &Health, last_failure: LastFailure) -> Self {
        let breaker = if health.breaker_open { "open" } else { "closed" };
        let next = health.next_attempt_in().and_then(|wait| Timestamp::now().checked_add(wait).ok());
        let next_attempt_at = next.filter(|_| last_failure.recovered_at.is_none());
        Self { breaker, last_failure, next_attempt_at }
    }
}

/// The node that published last, what it published, and when.
type Published = (NodeId, Option<SinkState>, Instant);

/// Watches the sink of a table. Never returns; the caller cancels it.
pub(crate) async fn watch(source: &str, drained: &DrainedTable, process: Option<&Process>) {
    let mut published = None;
    loop {
        publish(source, drained, process, &mut published).await;
        sleep(TICK).await;
        tell(source, drained).await;
    }
}

/// Stores the process and the state of the sink with the node if they have changed. The sink has no state before its first
/// failure.
async fn publish(
    source: &str,
    drained: &DrainedTable,
    process: Option<&Process>,
    published: &mut Option<Published>,
) {
    let Some(health) = drained.health() else { return };
    let Some(node) = health.node else { return };
    let sink = drained.failures.last().map(|last_failure| SinkState::new(&health, last_failure));
    if let Some((by, last, at)) = published
        && *by == node
        && is_published(last.as_ref(), *at, sink.as_ref())
    {
        return;
    }
    let Ok(state) = serde_json::to_string(&NodeState { process, sink: sink.as_ref() }) else { return };
    match drained.store.publish(node, state).await {
        Ok(()) => *published = Some((node, sink, Instant::now())),
        Err(error) => tracing::debug!(source, %error, "the state of the node could not be published"),
    }
}

/// Whether the state needs no update: nothing has changed, or only counts and times have, a short time ago.
fn is_published(last: Option<&SinkState>, at: Instant, sink: Option<&SinkState>) -> bool {
    match (last, sink) {
        (Some(last), Some(sink)) => {
            is_like(last, sink) || at.elapsed() < COUNTS_APART && is_same_failure(last, sink)
        }
        (last, sink) => last.is_none() && sink.is_none(),
    }
}

/// Whether both are equal except for the time of the next attempt, which moves with each check.
fn is_like(one: &SinkState, other: &SinkState) -> bool {
    one.breaker == other.breaker && one.last_failure == other.last_failure
}

/// Whether both describe the same failure, so that only counts, times or the text of the error differ.
fn is_same_failure(one: &SinkState, other: &SinkState) -> bool {
    let what = |state: &SinkState| {
        let LastFailure { class, since, recovered_at, .. } = state.last_failure;
        (state.breaker, class, since, recovered_at)
    };
    what(one) == what(other)
}

/// Logs the changes since the last call.
pub(crate) async fn tell(source: &str, drained: &DrainedTable) {
    while let Some(news) = drained.failures.news(Timestamp::now()) {
        let table = drained.table.as_str();
        match news {
            News::Began(failure) | News::Changed(failure) => {
                let health = drained.health();
                let next_attempt_in = health.as_ref().and_then(|health| health.next_attempt_in());
                let waiting = waiting(drained).await;
                tracing::warn!(
                    source,
                    table,
                    class = failure.class,
                    error = %failure.error,
                    since = %failure.since,
                    failed_requests = failure.requests,
                    next_attempt_in = next_attempt_in.map(tracing::field::debug),
                    waiting_events = waiting.as_deref(),
                    "the endpoint fails: events wait"
                );
            }
            News::Recovered(failure) => tracing::info!(
                source,
                table,
                class = failure.class,
                since = %failure.since,
                failed_requests = failure.requests,
                "the endpoint accepts events again"
            ),
        }
    }
}

/// The number of pending events, or at least those in memory if the store does not answer in time.
async fn waiting(drained: &DrainedTable) -> Option<String> {
    match timeout(COUNTED_WITHIN, pending(&*drained.store)).await {
        Ok(Ok(count)) => Some(count.to_string()),
        _ => drained.health().map(|health| format!("at least {}", health.in_memory)),
    }
}
