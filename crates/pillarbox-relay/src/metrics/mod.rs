//! Defines the metrics of each table once, for Prometheus and for OTLP.

mod otlp;
mod prometheus;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pillarbox::port::{Cause, MetricsExporter};
use pillarbox_admin::SourceCounts;

pub(crate) use otlp::{Exporter, is_header};
pub(crate) use prometheus::text;

use crate::failures::Failures;
use crate::source::Health;

/// The names, unit and help text of one metric.
struct Metric {
    /// The name in Prometheus.
    prometheus: &'static str,
    /// The name in OpenTelemetry.
    otel: &'static str,
    unit: &'static str,
    help: &'static str,
}

const COUNTERS: [Metric; 6] = [
    Metric {
        prometheus: "pillarbox_delivered_total",
        otel: "pillarbox.delivered",
        unit: "{event}",
        help: "Events that the sink accepted.",
    },
    Metric {
        prometheus: "pillarbox_failed_total",
        otel: "pillarbox.failed",
        unit: "{attempt}",
        help: "Attempts that failed.",
    },
    Metric {
        prometheus: "pillarbox_dead_total",
        otel: "pillarbox.dead",
        unit: "{event}",
        help: "Events that went dead.",
    },
    Metric {
        prometheus: "pillarbox_read_total",
        otel: "pillarbox.read",
        unit: "{event}",
        help: "Events that were read from the table.",
    },
    Metric {
        prometheus: "pillarbox_read_passed_total",
        otel: "pillarbox.read_passed",
        unit: "{event}",
        help: "Pending events that a sweep found below the read position.",
    },
    Metric {
        prometheus: "pillarbox_dead_of_endpoint_total",
        otel: "pillarbox.dead_of_endpoint",
        unit: "{event}",
        help: "Events that went dead because the endpoint kept failing on them while it accepted others.",
    },
];
/// The one metric with a series per class of [`Cause`].
const FAILURES: Metric = Metric {
    prometheus: "pillarbox_endpoint_failures_total",
    otel: "pillarbox.endpoint_failures",
    unit: "{request}",
    help: "Requests that failed because of the endpoint or the network, by class.",
};
const GAUGES: [Metric; 7] = [
    Metric {
        prometheus: "pillarbox_in_memory",
        otel: "pillarbox.in_memory",
        unit: "{event}",
        help: "Events in memory, including those in flight.",
    },
    Metric {
        prometheus: "pillarbox_in_flight",
        otel: "pillarbox.in_flight",
        unit: "{batch}",
        help: "Batches in flight to the sink.",
    },
    Metric {
        prometheus: "pillarbox_oldest_seconds",
        otel: "pillarbox.oldest",
        unit: "s",
        help: "Age of the oldest pending event in the slots that this relay holds.",
    },
    Metric {
        prometheus: "pillarbox_breaker_open",
        otel: "pillarbox.breaker_open",
        unit: "1",
        help: "1 while the circuit breaker is open.",
    },
    Metric {
        prometheus: "pillarbox_slots_held",
        otel: "pillarbox.slots_held",
        unit: "{slot}",
        help: "Slots that this relay holds; 1 for the leader where a leader takes rows.",
    },
    Metric {
        prometheus: "pillarbox_member",
        otel: "pillarbox.member",
        unit: "1",
        help: "1 while this relay is registered as a node of the table.",
    },
    Metric {
        prometheus: "pillarbox_source_up",
        otel: "pillarbox.source_up",
        unit: "1",
        help: "1 while the source is connected.",
    },
];

/// The counters of one engine.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    delivered: AtomicU64,
    failed: AtomicU64,
    dead: AtomicU64,
    read: AtomicU64,
    passed: AtomicU64,
    dead_of_endpoint: AtomicU64,
    oldest_ms: AtomicU64,
}

impl Meter {
    pub(crate) fn counts(&self) -> SourceCounts {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        SourceCounts {
            delivered: of(&self.delivered),
            failed: of(&self.failed),
            dead: of(&self.dead),
            endpoint_failures: 0,
        }
    }

    /// The current values. Without `health` the engine does not run, and its gauges are 0.
    pub(crate) fn reading(
        &self,
        source: &str,
        table: &str,
        health: Option<&Health>,
        failures: &Failures,
    ) -> Reading {
        let SourceCounts { delivered, failed, dead, .. } = self.counts();
        let of = |value: fn(&Health) -> usize| health.map_or(0.0, |health| value(health) as f64);
        let oldest = Duration::from_millis(self.oldest_ms.load(Ordering::Relaxed)).as_secs_f64();
        Reading {
            source: source.to_owned(),
            table: table.to_owned(),
            counters: [
                delivered,
                failed,
                dead,
                self.read.load(Ordering::Relaxed),
                self.passed.load(Ordering::Relaxed),
                self.dead_of_endpoint.load(Ordering::Relaxed),
            ],
            failures: failures.requests(),
            gauges: [
                of(|health| health.in_memory),
                of(|health| health.out),
                oldest,
                of(|health| usize::from(health.breaker_open)),
                of(|health| health.slots),
                of(|health| usize::from(health.member)),
                of(|_| 1),
            ],
        }
    }
}

impl MetricsExporter for Meter {
    fn cold_enqueued(&self, count: u64) {
        self.read.fetch_add(count, Ordering::Relaxed);
    }

    fn read_passed(&self, count: u64) {
        self.passed.fetch_add(count, Ordering::Relaxed);
    }

    fn dispatch_success(&self, count: u64) {
        self.delivered.fetch_add(count, Ordering::Relaxed);
    }

    fn dispatch_failure(&self, count: u64) {
        self.failed.fetch_add(count, Ordering::Relaxed);
    }

    fn dispatch_dead(&self, count: u64) {
        self.dead.fetch_add(count, Ordering::Relaxed);
    }

    fn dispatch_dead_of_endpoint(&self, count: u64) {
        self.dead_of_endpoint.fetch_add(count, Ordering::Relaxed);
    }

    fn oldest_lag(&self, age: Duration) {
        self.oldest_ms.store(u64::try_from(age.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

/// The values of one table, in the order of [`COUNTERS`] and [`GAUGES`].
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reading {
    source: String,
    table: String,
    counters: [u64; COUNTERS.len()],
    gauges: [f64; GAUGES.len()],
    /// Failed requests by class, in the order of [`Cause::CLASSES`].
    failures: [u64; Cause::CLASSES.len()],
}

#[cfg(test)]
fn sample(source: &str) -> Reading {
    let meter = Meter::default();
    meter.dispatch_success(5);
    meter.dispatch_dead(1);
    meter.oldest_lag(Duration::from_millis(1_500));
    meter.reading(source, "outbox_event", None, &Failures::default())
}
