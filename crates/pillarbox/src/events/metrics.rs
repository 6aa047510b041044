//! Metrics through the `metrics` facade, for Prometheus, OpenTelemetry or any other recorder.

use std::time::Duration;

use metrics::{Counter, Gauge, counter, gauge};

use crate::port::MetricsExporter;

/// Exports counters and gauges to the recorder of the `metrics` facade.
///
/// Names are `{prefix}.enqueue.hot` and so on, by default with the prefix `outbox`. Prometheus
/// recorders turn dots into underscores.
pub struct FacadeMetrics {
    hot: Counter,
    hot_dropped: Counter,
    cold: Counter,
    passed: Counter,
    success: Counter,
    failure: Counter,
    dead: Counter,
    hot_depth: Gauge,
    cold_depth: Gauge,
    lag: Gauge,
}

impl FacadeMetrics {
    /// Creates metrics named `outbox.…` on the current recorder; install the recorder first.
    #[must_use]
    pub fn new() -> Self {
        Self::with_prefix("outbox")
    }

    /// Creates metrics with a custom prefix, for several outboxes in one process.
    #[must_use]
    pub fn with_prefix(prefix: &str) -> Self {
        let name = |suffix: &str| format!("{prefix}.{suffix}");
        Self {
            hot: counter!(name("enqueue.hot")),
            hot_dropped: counter!(name("enqueue.hot.dropped")),
            cold: counter!(name("enqueue.cold")),
            passed: counter!(name("read.passed")),
            success: counter!(name("dispatch.success")),
            failure: counter!(name("dispatch.failure")),
            dead: counter!(name("dispatch.dead")),
            hot_depth: gauge!(name("queue.hot.depth")),
            cold_depth: gauge!(name("queue.cold.depth")),
            lag: gauge!(name("lag.oldest.ms")),
        }
    }
}

impl Default for FacadeMetrics {
    fn default() -> Self {
        Self::new()
    }
}

impl MetricsExporter for FacadeMetrics {
    fn hot_enqueued(&self, count: u64) {
        self.hot.increment(count);
    }

    fn hot_dropped(&self, count: u64) {
        self.hot_dropped.increment(count);
    }

    fn cold_enqueued(&self, count: u64) {
        self.cold.increment(count);
    }

    fn read_passed(&self, count: u64) {
        self.passed.increment(count);
    }

    fn dispatch_success(&self, count: u64) {
        self.success.increment(count);
    }

    fn dispatch_failure(&self, count: u64) {
        self.failure.increment(count);
    }

    fn dispatch_dead(&self, count: u64) {
        self.dead.increment(count);
    }

    fn queue_depths(&self, hot: usize, cold: usize) {
        self.hot_depth.set(hot as f64);
        self.cold_depth.set(cold as f64);
    }

    fn oldest_lag(&self, age: Duration) {
        self.lag.set(age.as_secs_f64() * 1_000.0);
    }
}
