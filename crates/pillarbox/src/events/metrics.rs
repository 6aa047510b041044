//! Metrics through the `metrics` facade, for Prometheus, OpenTelemetry or any other recorder.

use std::time::Duration;

use metrics::{Counter, Gauge, counter, gauge};

use crate::port::MetricsExporter;

/// Defines [`FacadeMetrics`] with a counter for each method of the exporter that counts.
macro_rules! facade_metrics {
    ($($counted:ident = $suffix:literal;)+) => {
        /// Exports counters and gauges to the recorder of the `metrics` facade.
        ///
        /// Names are `{prefix}.enqueue.hot` and so on, by default with the prefix `outbox`. Prometheus
        /// recorders turn dots into underscores.
        pub struct FacadeMetrics {
            $($counted: Counter,)+
            hot_depth: Gauge,
            cold_depth: Gauge,
            lag: Gauge,
        }

        impl FacadeMetrics {
            /// Creates metrics with a custom prefix, for several outboxes in one process.
            #[must_use]
            pub fn with_prefix(prefix: &str) -> Self {
                let name = |suffix: &str| format!("{prefix}.{suffix}");
                Self {
                    $($counted: counter!(name($suffix)),)+
                    hot_depth: gauge!(name("queue.hot.depth")),
                    cold_depth: gauge!(name("queue.cold.depth")),
                    lag: gauge!(name("lag.oldest.ms")),
                }
            }
        }

        impl MetricsExporter for FacadeMetrics {
            $(fn $counted(&self, count: u64) {
                self.$counted.increment(count);
            })+

            fn queue_depths(&self, hot: usize, cold: usize) {
                self.hot_depth.set(hot as f64);
                self.cold_depth.set(cold as f64);
            }

            fn oldest_lag(&self, age: Duration) {
                self.lag.set(age.as_secs_f64() * 1_000.0);
            }
        }
    };
}

facade_metrics! {
    hot_enqueued = "enqueue.hot";
    hot_dropped = "enqueue.hot.dropped";
    cold_enqueued = "enqueue.cold";
    read_passed = "read.passed";
    dispatch_success = "dispatch.success";
    dispatch_failure = "dispatch.failure";
    dispatch_dead = "dispatch.dead";
}

impl FacadeMetrics {
    /// Creates metrics named `outbox.…` on the current recorder; install the recorder first.
    #[must_use]
    pub fn new() -> Self {
        Self::with_prefix("outbox")
    }
}

impl Default for FacadeMetrics {
    fn default() -> Self {
        Self::new()
    }
}
