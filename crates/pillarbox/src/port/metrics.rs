//! The metrics port: counters and gauges of the engine.

use std::time::Duration;

/// Receives counts and gauges. Every method does nothing by default.
pub trait MetricsExporter: Send + Sync + 'static {
    /// Events accepted into the hot path's buffer.
    fn hot_enqueued(&self, _count: u64) {}
    /// Events that did not fit in the hot path's buffer; the reader delivers them.
    fn hot_dropped(&self, _count: u64) {}
    /// Events read from the store.
    fn cold_enqueued(&self, _count: u64) {}
    /// Pending events below the cursor that a sweep found, because numbers were reused or done rows became
    /// pending again.
    fn read_passed(&self, _count: u64) {}
    /// Events accepted by the sink.
    fn dispatch_success(&self, _count: u64) {}
    /// Failed attempts that are retried; the last one counts as dead instead.
    fn dispatch_failure(&self, _count: u64) {}
    /// Events that became dead.
    fn dispatch_dead(&self, _count: u64) {}
    /// Events that became dead because the endpoint kept failing for them while it accepted others. Also
    /// counted as dead.
    fn dispatch_dead_of_endpoint(&self, _count: u64) {}
    /// Events in memory, by path.
    fn queue_depths(&self, _hot: usize, _cold: usize) {}
    /// The age of the oldest pending event.
    fn oldest_lag(&self, _age: Duration) {}
}

/// A metrics exporter that ignores everything.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoMetrics;

impl MetricsExporter for NoMetrics {}
