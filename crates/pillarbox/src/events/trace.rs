//! The current trace: where the writer takes it from, and where a listener finds it.

use std::future::Future;

use crate::model::TraceContext;

tokio::task_local! {
    static CURRENT: TraceContext;
}

/// Tells the trace that is current where an event is written.
pub trait TraceSource: Send + Sync + 'static {
    /// The trace, if there is one.
    fn current(&self) -> Option<TraceContext>;
}

/// The trace of the task, as set by [`scope`]; a listener runs in the scope of its event's trace.
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

/// The trace of the task.
#[must_use]
pub fn current() -> Option<TraceContext> {
    CURRENT.try_with(Clone::clone).ok()
}

/// Runs a future within a trace: what it writes belongs to it.
pub async fn scope<F: Future>(context: TraceContext, future: F) -> F::Output {
    CURRENT.scope(context, future).await
}
