//! The engine's settings and their bounds.

use std::sync::Arc;
use std::time::Duration;

use crate::model::{Invalid, ROW_BYTES_MAX};
use crate::port::{OnDone, Order, ReadScope};
use crate::rules::{ATTEMPTS_MAX, Exponential, Lease, RetryPolicy};

/// What happens to a group after one of its events is dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnDead {
    /// The group stays blocked, across restarts, until an operator replays, discards, skips
    /// or unblocks the dead event.
    #[default]
    Block,
    /// The group continues with the next event.
    Skip,
}

/// How a leader orders rows without a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ungrouped {
    /// They share the group `default` and keep its order.
    #[default]
    Default,
    /// They are independent of each other.
    Parallel,
}

impl Ungrouped {
    /// Key of the group shared by rows without a group.
    pub const GROUP: &'static str = "default";
}

/// The settings of the engine. The events API, the queue API and the relay set them.
#[derive(Clone)]
pub struct EngineSettings {
    /// Whether groups keep their order.
    pub order: Order,
    /// How a leader orders rows without a group.
    pub ungrouped: Ungrouped,
    /// What happens to a group after one of its events is dead; only if groups keep their order.
    pub on_dead: OnDead,
    /// Number of batches that are delivered concurrently.
    pub workers: usize,
    /// Maximum number of events of one group in a batch.
    pub batch: usize,
    /// Maximum number of hot rows in memory, which writers push after their commit.
    pub hot_rows: usize,
    /// Maximum number of cold rows in memory, which are read from the store.
    pub cold_rows: usize,
    /// Maximum size of all rows in memory, hot and cold together, in bytes.
    pub buffer_bytes: usize,
    /// Maximum size of a row in bytes; a larger row is marked dead without being loaded.
    pub row_bytes: usize,
    /// Whether this node reads a share of the slots or only its own lane. Ordered groups require a share.
    pub reads: ReadScope,
    /// Rows in the first page of a read; pages double while more rows are pending.
    pub fetch_rows: usize,
    /// Minimum age of a row before a read returns it.
    pub skip_recent: Duration,
    /// Number of failed attempts after which an event is dead.
    pub max_attempts: u32,
    /// In place of `max_attempts`: as many attempts as the retry policy makes in this time.
    pub give_up_after: Option<Duration>,
    /// Minimum time for which the endpoint must fail under an event while it accepts others, counted from
    /// when only the last attempt is left, before the event is dead.
    pub blame_after: Duration,
    /// Backoff between attempts.
    pub retry: Arc<dyn RetryPolicy>,
    /// Deadline of one delivery; a delivery that exceeds it has failed.
    pub deadline: Duration,
    /// Whether done rows are kept or deleted.
    pub on_done: OnDone,
    /// Lease of a node: without a heartbeat for this long, other nodes evict it.
    pub lease: Lease,
    /// Maximum time between two reads when no wake-up arrives.
    pub poll_interval: Duration,
    /// Pause between a read that found rows and the next poll. It doubles up to the poll
    /// interval while polls are empty.
    pub quick_poll: Option<Duration>,
    /// Interval of the sweep, which finds rows that the cursor has passed.
    pub sweep_interval: Duration,
    /// Time after which the leader releases a row that was taken and not settled.
    pub processing_timeout: Duration,
    /// How long shutdown keeps delivering events in memory before it releases the rest.
    pub drain: Duration,
    /// Maximum time for which an outcome waits to be settled together with others.
    pub settle_linger: Duration,
    /// Maximum number of outcomes settled in one call.
    pub settle_rows: usize,
    /// Age up to which a claimed event without a listener is retried; zero marks it dead immediately.
    pub no_route_grace: Duration,
    /// Human-readable label of the node, such as host name and process id.
    pub label: String,
}

impl Default for EngineSettings {
    fn default() -> Self {
        Self {
            order: Order::None,
            ungrouped: Ungrouped::Default,
            on_dead: OnDead::Block,
            workers: 4,
            batch: 1,
            hot_rows: 1_000,
            cold_rows: 1_000,
            buffer_bytes: 64 * 1024 * 1024,
            row_bytes: ROW_BYTES_MAX,
            reads: ReadScope::Share,
            fetch_rows: 100,
            skip_recent: Duration::ZERO,
            max_attempts: 10,
            give_up_after: None,
            blame_after: Duration::from_secs(3_600),
            retry: Arc::new(Exponential::default()),
            deadline: Duration::from_secs(300),
            on_done: OnDone::Keep,
            lease: Lease::default(),
            poll_interval: Duration::from_secs(5),
            quick_poll: None,
            sweep_interval: Duration::from_secs(300),
            processing_timeout: Duration::from_secs(300),
            drain: Duration::from_secs(5),
            settle_linger: Duration::from_millis(10),
            settle_rows: 1_000,
            no_route_grace: Duration::ZERO,
            label: String::new(),
        }
    }
}

impl EngineSettings {
    /// Returns the first setting that is out of range as an error.
    pub fn validate(&self) -> Result<(), Invalid> {
        self.problems().into_iter().next().map_or(Ok(()), Err)
    }

    /// Returns all settings that are out of range.
    #[must_use]
    pub fn problems(&self) -> Vec<Invalid> {
        const DAY: Duration = Duration::from_secs(24 * 60 * 60);
        let counts = [
            ("workers", self.workers, 1_024),
            ("batch", self.batch, 10_000),
            ("hot rows", self.hot_rows, 1_000_000),
            ("cold rows", self.cold_rows, 1_000_000),
            ("buffer bytes", self.buffer_bytes, isize::MAX as usize),
            ("row bytes", self.row_bytes, isize::MAX as usize),
            ("fetch rows", self.fetch_rows, 100_000),
            ("settle rows", self.settle_rows, 100_000),
            ("max attempts", self.max_attempts as usize, ATTEMPTS_MAX as usize),
        ];
        let times = [
            ("deadline", self.deadline, Duration::from_millis(1), DAY),
            ("poll interval", self.poll_interval, Duration::from_millis(1), DAY),
            ("quick poll", self.quick_poll.unwrap_or(DAY), Duration::from_millis(1), DAY),
            ("sweep interval", self.sweep_interval, Duration::from_millis(1), DAY),
            ("processing timeout", self.processing_timeout, Duration::from_secs(1), DAY * 365),
            ("drain", self.drain, Duration::ZERO, DAY),
            ("settle linger", self.settle_linger, Duration::ZERO, Duration::from_secs(10)),
            ("skip recent", self.skip_recent, Duration::ZERO, DAY),
            ("no route grace", self.no_route_grace, Duration::ZERO, DAY * 365),
            ("give up after", self.give_up_after.unwrap_or(DAY), Duration::from_secs(1), DAY * 365),
            ("blame after", self.blame_after, Duration::ZERO, DAY * 365),
        ];
        let no_share = self.reads == ReadScope::OwnLane && self.order == Order::PerGroup;
        let bad_counts = counts.into_iter().filter(|&(_, value, max)| value < 1 || value > max);
        let bad_times = times.into_iter().filter(|&(_, value, min, max)| value < min || value > max);
        bad_counts
            .map(|(field, value, max)| Invalid::range(field, value, format!("1 to {max}")))
            .chain(bad_times.map(|(field, value, min, max)| {
                Invalid::range(field, format!("{value:?}"), format!("{min:?} to {max:?}"))
            }))
            .chain(
                no_share.then(|| {
                    Invalid::range("polling", "off", "on where order is per group: groups are read")
                }),
            )
            .collect()
    }

    /// Whether groups take turns by the sequence number of their first event. With one worker, all events are
    /// then delivered in the order of their numbers.
    pub(crate) fn oldest_first(&self) -> bool {
        self.workers == 1
    }

    /// Maximum number of rows of one group in memory, so that a large group leaves room for others.
    pub(crate) fn group_rows(&self) -> usize {
        (self.cold_rows / 4).max(self.batch).max(1)
    }
}
