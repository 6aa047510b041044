//! All outbox settings as one serializable struct, for configuration files and environment variables.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{FacadeMetrics, OutboxBuilder, PurgeSettings};
use crate::engine::OnDead;
use crate::model::{Invalid, PAYLOAD_MAX};
use crate::port::{OnDone, Table};
use crate::rules::Exponential;

/// All settings of an outbox. Missing keys take their defaults; unknown keys are an error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct OutboxConfig {
    /// Number of listeners that run concurrently. Default: 4.
    pub workers: usize,
    /// Capacity of the hot queue: committed events that are buffered in memory without a read. Default: 1000.
    pub hot_queue_capacity: usize,
    /// Capacity of the cold queue: events read from the store that are buffered in memory. Default: 1000.
    pub cold_queue_capacity: usize,
    /// Maximum size of all buffered events, hot and cold together, in bytes. Default: 64 MiB.
    pub buffer_bytes: usize,
    /// Number of failed attempts after which an event is dead. Default: 10.
    pub max_attempts: u32,
    /// Retry delay after the first failure before jitter, in milliseconds; doubles per attempt. Default: 200.
    pub retry_base_delay_ms: u64,
    /// Maximum retry delay before jitter, in milliseconds. Default: 60000.
    pub retry_max_delay_ms: u64,
    /// How long shutdown keeps delivering buffered events before it releases the
    /// rest, in milliseconds. Default: 5000.
    pub drain_timeout_ms: u64,
    /// Deadline of one delivery, in milliseconds; a delivery that exceeds it has failed. Default: 300000.
    pub listener_deadline_ms: u64,
    /// Whether this process also delivers events that other processes wrote. If false, it takes no
    /// slots; see [`OutboxBuilder::no_polling`]. Default: true.
    pub poller_enabled: bool,
    /// Maximum time between two reads when no wake-up arrives, in milliseconds. Default: 5000.
    pub poller_interval_ms: u64,
    /// Rows in the first page of a read; pages grow while more rows are pending. Default: 50.
    pub poller_batch_size: usize,
    /// Minimum age of a row before a read returns it, in milliseconds. Default: 0.
    pub poller_skip_recent_ms: u64,
    /// Lease of a node, in milliseconds: without a heartbeat for this long, other
    /// nodes evict it. Default: 15000.
    pub lease_ms: u64,
    /// Human-readable label of this node, such as host name and process id. Default: empty.
    pub label: String,
    /// Whether delivered rows are kept or deleted: `keep` or `delete`. Default: keep.
    pub on_done: OnDone,
    /// Whether a dead event blocks its group or is skipped: `block` or `skip`. Default: block.
    pub on_dead: OnDead,
    /// Maximum payload size in bytes. Default: 1 MiB.
    pub payload_limit_bytes: usize,
    /// Maximum size of a row in bytes, all columns together; a larger row is marked dead without being
    /// loaded. Default: 16 MiB, or more if the payload limit requires it.
    pub max_row_bytes: Option<usize>,
    /// Whether old events are purged. Default: true.
    pub purge_enabled: bool,
    /// Retention of done events, in seconds. Default: 604800 (7 days).
    pub purge_keep_done_seconds: u64,
    /// Retention of dead events, in seconds. Default: 2592000 (30 days).
    pub purge_keep_dead_seconds: u64,
    /// Retention of all events regardless of status, in seconds; only for a writer-only outbox, because it
    /// deletes undelivered events. Default: none.
    pub purge_keep_any_seconds: Option<u64>,
    /// Maximum number of rows deleted in one transaction. Default: 500.
    pub purge_batch_size: usize,
    /// Time between two purge runs, in seconds. Default: 3600.
    pub purge_interval_seconds: u64,
    /// Prefix of metric names; metrics go to the recorder installed in the `metrics`
    /// facade, if any. Default: `outbox`.
    pub metrics_prefix: String,
}

impl Default for OutboxConfig {
    fn default() -> Self {
        Self {
            workers: 4,
            hot_queue_capacity: 1_000,
            cold_queue_capacity: 1_000,
            buffer_bytes: 64 * 1024 * 1024,
            max_attempts: 10,
            retry_base_delay_ms: 200,
            retry_max_delay_ms: 60_000,
            drain_timeout_ms: 5_000,
            listener_deadline_ms: 300_000,
            poller_enabled: true,
            poller_interval_ms: 5_000,
            poller_batch_size: 50,
            poller_skip_recent_ms: 0,
            lease_ms: 15_000,
            label: String::new(),
            on_done: OnDone::Keep,
            on_dead: OnDead::Block,
            payload_limit_bytes: PAYLOAD_MAX,
            max_row_bytes: None,
            purge_enabled: true,
            purge_keep_done_seconds: 7 * 24 * 60 * 60,
            purge_keep_dead_seconds: 30 * 24 * 60 * 60,
            purge_keep_any_seconds: None,
            purge_batch_size: 500,
            purge_interval_seconds: 3_600,
            metrics_prefix: "outbox".to_owned(),
        }
    }
}

impl OutboxConfig {
    /// Returns all invalid settings, each with field, value and bound.
    #[must_use]
    pub fn problems(&self) -> Vec<Invalid> {
        let mut problems = Vec::new();
        if self.retry_base_delay_ms > self.retry_max_delay_ms {
            let bound = format!("at most retry-max-delay-ms, {}", self.retry_max_delay_ms);
            problems.push(Invalid::range("retry-base-delay-ms", self.retry_base_delay_ms, bound));
        }
        if self.payload_limit_bytes == 0 {
            problems.push(Invalid::range("payload-limit-bytes", 0, "1 or more"));
        }
        if self.metrics_prefix.is_empty() {
            problems.push(Invalid::Empty { field: "metrics-prefix" });
        }
        problems.extend(crate::rules::Lease::new(ms(self.lease_ms)).err());
        problems
    }

    /// Applies all settings to a builder. Invalid settings surface when the builder starts.
    pub fn apply<S: Table>(&self, builder: OutboxBuilder<S>) -> OutboxBuilder<S> {
        let retry = Exponential { base: ms(self.retry_base_delay_ms), max: ms(self.retry_max_delay_ms) };
        let builder = builder
            .workers(self.workers)
            .hot_capacity(self.hot_queue_capacity)
            .cold_capacity(self.cold_queue_capacity)
            .buffer_bytes(self.buffer_bytes)
            .max_attempts(self.max_attempts)
            .retry(retry)
            .drain_timeout(ms(self.drain_timeout_ms))
            .deadline(ms(self.listener_deadline_ms))
            .poll_interval(ms(self.poller_interval_ms))
            .batch_size(self.poller_batch_size)
            .skip_recent(ms(self.poller_skip_recent_ms))
            .lease(ms(self.lease_ms))
            .on_done(self.on_done)
            .on_dead(self.on_dead)
            .payload_limit(self.payload_limit_bytes)
            .label(self.label.clone())
            .metrics(Arc::new(FacadeMetrics::with_prefix(&self.metrics_prefix)))
            .problems(self.problems());
        let builder = match self.max_row_bytes {
            Some(bytes) => builder.max_row_bytes(bytes),
            None => builder,
        };
        let builder = if self.poller_enabled { builder } else { builder.no_polling() };
        if !self.purge_enabled {
            return builder.no_purge();
        }
        builder.purge(PurgeSettings {
            keep_done: Duration::from_secs(self.purge_keep_done_seconds),
            keep_dead: Duration::from_secs(self.purge_keep_dead_seconds),
            keep_any: self.purge_keep_any_seconds.map(Duration::from_secs),
            batch: self.purge_batch_size,
            interval: Duration::from_secs(self.purge_interval_seconds),
        })
    }
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}
