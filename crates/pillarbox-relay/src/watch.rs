//! Logs when a sink begins to fail, fails differently and recovers, and publishes its state with the node.

use std::time::Duration;

use jiff::Timestamp;
use pillarbox::model::NodeId;
use serde::Serialize;
use tokio::time::{Instant, sleep, timeout};

use crate::failures::{LastFailure, News};
use crate::left::pending;
use crate::source::Part;

/// Interval between two checks of a sink.
const TICK: Duration = Duration::from_millis(500);
/// If only counts and times have changed, they are published at most once in this time.
const COUNTS_APART: Duration = Duration::from_secs(5);
/// Timeout for counting the pending events.
const COUNTED_WITHIN: Duration = Duration::from_secs(2);

/// The state of a node as JSON, shown in lists of nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct NodeState {
    sink: SinkState,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct SinkState {
    breaker: &'static str,
    last_failure: LastFailure,
    next_attempt_at: Option<Timestamp>,
}

/// The node that published last, what it published, and when.
type Published = (NodeId, SinkState, Instant);

/// Watches the sink of a table. Never returns; the caller cancels it.
pub(crate) async fn watch(source: &str, part: &Part) {
    let mut published = None;
    loop {
        sleep(TICK).await;
        tell(source, part).await;
        publish(source, part, &mut published).await;
    }
}

/// Stores the state of the sink with the node if it has changed. Stores nothing before the first failure.
async fn publish(source: &str, part: &Part, published: &mut Option<Published>) {
    let (Some(last_failure), Some(health)) = (part.failures.last(), part.health()) else { return };
    let Some(node) = health.node else { return };
    let breaker = if health.breaker_open { "open" } else { "closed" };
    let next = health.next_attempt_in().and_then(|wait| Timestamp::now().checked_add(wait).ok());
    let next_attempt_at = next.filter(|_| last_failure.recovered_at.is_none());
    let sink = SinkState { breaker, last_failure, next_attempt_at };
    if let Some((by, last, at)) = published
        && *by == node
        && (is_like(last, &sink) || at.elapsed() < COUNTS_APART && is_same_failure(last, &sink))
    {
        return;
    }
    let Ok(state) = serde_json::to_string(&NodeState { sink: sink.clone() }) else { return };
    match part.store.publish(node, state).await {
        Ok(()) => *published = Some((node, sink, Instant::now())),
        Err(error) => tracing::debug!(source, %error, "the state of the sink could not be published"),
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
pub(crate) async fn tell(source: &str, part: &Part) {
    while let Some(news) = part.failures.news(Timestamp::now()) {
        let table = part.table.as_str();
        match news {
            News::Began(failure) | News::Changed(failure) => {
                let health = part.health();
                let next_attempt_in = health.as_ref().and_then(|health| health.next_attempt_in());
                let waiting = waiting(part).await;
                tracing::warn!(
                    source,
                    table,
                    class = failure.class,
                    error = %failure.error,
                    since = %failure.since,
                    failed_requests = failure.requests,
                    ?next_attempt_in,
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
async fn waiting(part: &Part) -> Option<String> {
    match timeout(COUNTED_WITHIN, pending(&*part.store)).await {
        Ok(Ok(count)) => Some(count.to_string()),
        _ => part.health().map(|health| format!("at least {}", health.in_memory)),
    }
}
