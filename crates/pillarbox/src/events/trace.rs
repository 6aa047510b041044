//! The current trace context: the writer stores it with an event, and the event's listener runs in it.

use std::future::Future;

use crate::model::TraceContext;

tokio::task_local! {
    static CURRENT: TraceContext;
}

/// Supplies the trace context that is stored with a written event.
pub trait TraceSource: Send + Sync + 'static {
    /// Returns the current trace context, if any.
    fn current(&self) -> Option<TraceContext>;
}

/// The trace context of the current task, as set by [`scope`]. A listener runs in its event's trace.
#[derive(Debug, Clone, Copy, Default)]
pub struct TaskTrace;

impl TraceSource for TaskTrace {
    fn current(&self) -> Option<TraceContext> {
        current()
    }
}

impl<F: Fn() -> Option<TraceContext> + Send + Sync + 'static> TraceSource for F {
    fn current(&self) -> Option<TraceContext> {
        self()
    }
}

/// Returns the trace context of the current task, if any.
#[must_use]
pub fn current() -> Option<TraceContext> {
    CURRENT.try_with(Clone::clone).ok()
}

/// Runs a future within a trace: events that it writes carry this trace context.
pub async fn scope<F: Future>(context: TraceContext, future: F) -> F::Output {
    CURRENT.scope(context, future).await
}
