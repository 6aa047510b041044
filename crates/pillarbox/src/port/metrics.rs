//! The metrics port: what is counted and measured.

use std::time::Duration;

/// Takes counts and gauges. Every method does nothing by default.
pub trait MetricsExporter: Send + Sync + 'static {
    /// Events pushed to the hot line.
    fn hot_enqueued(&self, _count: u64) {}
    /// Events that did not fit the hot line; the reader delivers them.
    fn hot_dropped(&self, _count: u64) {}
    /// Events read from the store.
    fn cold_enqueued(&self, _count: u64) {}
    /// Pending events below the read position that a sweep found: numbers were given again, or done marks taken back.
    fn read_passed(&self, _count: u64) {}
    /// Events accepted.
    fn dispatch_success(&self, _count: u64) {}
    /// Attempts that failed.
    fn dispatch_failure(&self, _count: u64) {}
    /// Events given up.
    fn dispatch_dead(&self, _count: u64) {}
    /// Events given up, counted above too, under which the endpoint failed for long while it accepted others.
    fn dispatch_dead_of_endpoint(&self, _count: u64) {}
    /// Events in memory, hot and cold.
    fn queue_depths(&self, _hot: usize, _cold: usize) {}
    /// The age of the oldest pending event.
    fn oldest_lag(&self, _age: Duration) {}
}

/// Counts nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoMetrics;

impl MetricsExporter for NoMetrics {}
