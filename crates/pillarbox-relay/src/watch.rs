//! Tells of a sink that fails: once when it begins, when its error changes and when it recovers.

use std::time::Duration;

use jiff::Timestamp;
use pillarbox::model::Status;
use pillarbox::port::Select;
use tokio::time::{sleep, timeout};

use crate::failures::News;
use crate::source::Part;

/// How often a sink is looked at.
const TICK: Duration = Duration::from_millis(500);
/// How long the store may take to count what waits.
const COUNTED_WITHIN: Duration = Duration::from_secs(2);

/// Watches the sink of a table, for ever.
pub(crate) async fn watch(source: &str, part: &Part) {
    loop {
        sleep(TICK).await;
        tell(source, part).await;
    }
}

/// Says what is new.
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

/// How many events are pending, as far as the store tells in time.
async fn waiting(part: &Part) -> Option<String> {
    let select = Select { statuses: vec![Status::New, Status::Retry], ..Select::default() };
    match timeout(COUNTED_WITHIN, part.store.admin().count(select)).await {
        Ok(Ok(count)) => Some(count.to_string()),
        _ => part.health().map(|health| format!("at least {}", health.in_memory)),
    }
}
