//! What is counted: for the summary of a relay, and in Prometheus form with a recorder of the relay's own.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use metrics::{Counter, Gauge, Key, KeyName, Label, Level, Metadata, Recorder};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle, PrometheusRecorder};
use pillarbox::port::MetricsExporter;

use crate::source::Health;

const COUNTERS: [(&str, &str); 4] = [
    ("pillarbox_delivered_total", "Events that the sink accepted."),
    ("pillarbox_failed_total", "Attempts that failed."),
    ("pillarbox_dead_total", "Events that were given up."),
    ("pillarbox_read_total", "Events that were read from the table."),
];
const GAUGES: [(&str, &str); 7] = [
    ("pillarbox_in_memory", "Events that wait in memory."),
    ("pillarbox_in_flight", "Events that are out at the sink."),
    ("pillarbox_oldest_seconds", "The age of the oldest event in memory."),
    ("pillarbox_breaker_open", "1 while the sink is given a rest."),
    (
        "pillarbox_slots_held",
        "Shares of the table that this relay delivers; 1 is leadership where there is one.",
    ),
    ("pillarbox_member", "1 while this relay is a member of those that share the table."),
    ("pillarbox_source_up", "1 while the source is connected."),
];
const METADATA: Metadata<'static> = Metadata::new("pillarbox", Level::INFO, None);

/// What was counted so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Counts {
    /// Events that the sink accepted.
    pub delivered: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// Events that were given up.
    pub dead: u64,
}

impl std::ops::Add for Counts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            delivered: self.delivered + other.delivered,
            failed: self.failed + other.failed,
            dead: self.dead + other.dead,
        }
    }
}

/// The metrics of one relay.
pub(crate) struct Registry {
    recorder: PrometheusRecorder,
    handle: PrometheusHandle,
}

impl Registry {
    pub(crate) fn new() -> Self {
        let recorder = PrometheusBuilder::new().build_recorder();
        for (name, description) in COUNTERS {
            recorder.describe_counter(KeyName::from_const_str(name), None, description.into());
        }
        for (name, description) in GAUGES {
            recorder.describe_gauge(KeyName::from_const_str(name), None, description.into());
        }
        Self { handle: recorder.handle(), recorder }
    }

    pub(crate) fn render(&self) -> String {
        self.handle.run_upkeep();
        self.handle.render()
    }

    /// The meter of a source, or of one of its tables.
    pub(crate) fn meter(&self, source: &str, table: &str) -> Meter {
        let labels = [Label::new("source", source.to_owned()), Label::new("table", table.to_owned())];
        let key = |name: &'static str| Key::from_parts(name, labels.to_vec());
        Meter {
            counters: COUNTERS.map(|(name, _)| self.recorder.register_counter(&key(name), &METADATA)),
            gauges: GAUGES.map(|(name, _)| self.recorder.register_gauge(&key(name), &METADATA)),
            counts: Default::default(),
        }
    }
}

/// Counts what one engine does.
pub(crate) struct Meter {
    counters: [Counter; 4],
    gauges: [Gauge; 7],
    counts: [AtomicU64; 3],
}

impl Meter {
    fn count(&self, index: usize, count: u64) {
        self.counters[index].increment(count);
        if let Some(counter) = self.counts.get(index) {
            counter.fetch_add(count, Ordering::Relaxed);
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        let [delivered, failed, dead] = &self.counts;
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts { delivered: of(delivered), failed: of(failed), dead: of(dead) }
    }

    /// Shows how an engine is; none: it does not run.
    pub(crate) fn show(&self, health: Option<&Health>) {
        let [in_memory, in_flight, _, breaker, slots, member, up] = &self.gauges;
        let of = |value: fn(&Health) -> usize| health.map_or(0.0, |health| value(health) as f64);
        in_memory.set(of(|health| health.in_memory));
        in_flight.set(of(|health| health.out));
        breaker.set(of(|health| usize::from(health.breaker_open)));
        slots.set(of(|health| health.slots));
        member.set(of(|health| usize::from(health.member)));
        up.set(of(|_| 1));
    }
}

impl MetricsExporter for Meter {
    fn cold_enqueued(&self, count: u64) {
        self.count(3, count);
    }

    fn dispatch_success(&self, count: u64) {
        self.count(0, count);
    }

    fn dispatch_failure(&self, count: u64) {
        self.count(1, count);
    }

    fn dispatch_dead(&self, count: u64) {
        self.count(2, count);
    }

    fn oldest_lag(&self, age: Duration) {
        self.gauges[2].set(age.as_secs_f64());
    }
}
