//! One configuration for everything that can be set, for files and environments of the user's own.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{FacadeMetrics, OutboxBuilder, PurgeSettings};
use crate::engine::OnDead;
use crate::model::{Invalid, PAYLOAD_MAX};
use crate::port::{OnDone, Table};
use crate::rules::Exponential;

/// Every setting of an outbox. Missing keys have their defaults, unknown ones are refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct OutboxConfig {
    /// Listeners that run at once. Default: 4.
    pub workers: usize,
    /// Committed events that may wait in memory. Default: 1000.
    pub hot_queue_capacity: usize,
    /// Events read from the store that may wait in memory. Default: 1000.
    pub cold_queue_capacity: usize,
    /// Bytes that may wait in memory. Default: 64 MiB.
    pub buffer_bytes: usize,
    /// Attempts before an event is dead. Default: 10.
    pub max_attempts: u32,
    /// The delay after the first failure. Default: 200.
    pub retry_base_delay_ms: u64,
    /// The longest delay. Default: 60000.
    pub retry_max_delay_ms: u64,
    /// How long closing waits for what is in memory. Default: 5000.
    pub drain_timeout_ms: u64,
    /// A delivery that takes longer has failed. Default: 300000.
    pub listener_deadline_ms: u64,
    /// Whether the store is read at all, beside the hot path. Default: true.
    pub poller_enabled: bool,
    /// The longest time between two reads, in milliseconds. Default: 5000.
    pub poller_interval_ms: u64,
    /// Rows of a first read; more while more are waiting. Default: 50.
    pub poller_batch_size: usize,
    /// Rows younger than this are left to later reads. Default: 0.
    pub poller_skip_recent_ms: u64,
    /// How long a node lives without a heartbeat. Default: 15000.
    pub lease_ms: u64,
    /// A label of this node for people, such as host and process. Default: empty.
    pub label: String,
    /// What happens to rows that are done: `keep` or `delete`. Default: keep.
    pub on_done: OnDone,
    /// What happens to a group whose head died: `block` or `skip`. Default: block.
    pub on_dead: OnDead,
    /// Largest payload in bytes. Default: 1 MiB.
    pub payload_limit_bytes: usize,
    /// A row of more bytes than this, all columns together, is set aside as dead without being loaded. Default: 16 MiB, or
    /// more where the payload limit is larger.
    pub max_row_bytes: Option<usize>,
    /// Whether old events are deleted. Default: true.
    pub purge_enabled: bool,
    /// Keep done events this long. Default: 604800 (7 days).
    pub purge_keep_done_seconds: u64,
    /// Keep dead events this long. Default: 2592000 (30 days).
    pub purge_keep_dead_seconds: u64,
    /// Delete every event older than this, whatever its status; for writer only. Default: none.
    pub purge_keep_any_seconds: Option<u64>,
    /// Rows deleted in one transaction. Default: 500.
    pub purge_batch_size: usize,
    /// How often. Default: 3600.
    pub purge_interval_seconds: u64,
    /// What the names of metrics begin with; they go to the recorder of the `metrics` facade, if there is one.
    /// Default: `outbox`.
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
    /// Every problem at once, each with field, value and bound.
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

    /// Sets a builder to all of this.
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
