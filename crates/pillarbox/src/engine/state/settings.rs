//! What the engine is set to.

use std::sync::Arc;
use std::time::Duration;

use crate::model::{Invalid, ROW_BYTES_MAX};
use crate::port::{OnDone, Order, Part};
use crate::rules::{Exponential, Lease, RetryPolicy};

/// What happens to a group whose head died.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnDead {
    /// It stays blocked, across restarts, until an operator replays, skips or unblocks it.
    #[default]
    Block,
    /// It goes on with the next event.
    Skip,
}

/// What rows without a group do, where a leader takes rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ungrouped {
    /// They share the group `default`.
    #[default]
    Default,
    /// Each goes for itself.
    Parallel,
}

impl Ungrouped {
    /// The group that rows without one share.
    pub const GROUP: &'static str = "default";
}

/// The settings of the engine; the doors set them.
#[derive(Clone)]
pub struct EngineSettings {
    /// Whether groups keep their order.
    pub order: Order,
    /// What rows without a group do, where a leader takes rows.
    pub ungrouped: Ungrouped,
    /// What happens to a group whose head died; only with order.
    pub on_dead: OnDead,
    /// How many batches are delivered at once.
    pub workers: usize,
    /// How many events of one group go to the sink together.
    pub batch: usize,
    /// Rows pushed by writers that may wait in memory.
    pub hot_rows: usize,
    /// Rows read from the store that may wait in memory.
    pub cold_rows: usize,
    /// Bytes that may wait in memory, hot and cold together.
    pub buffer_bytes: usize,
    /// A row of more bytes than this is set aside as dead without being loaded.
    pub row_bytes: usize,
    /// What is read: a share of all, or only what this process wrote. Groups need a share.
    pub part: Part,
    /// Rows asked for in a first read; pages double while more are waiting.
    pub fetch_rows: usize,
    /// Rows younger than this are left to later reads.
    pub skip_recent: Duration,
    /// Attempts before an event is dead.
    pub max_attempts: u32,
    /// An event under which the endpoint fails while it accepts others dies only if that has lasted this long after all
    /// attempts but the last.
    pub blame_after: Duration,
    /// How long to wait between attempts.
    pub retry: Arc<dyn RetryPolicy>,
    /// A delivery that takes longer has failed.
    pub deadline: Duration,
    /// What happens to rows that are done.
    pub on_done: OnDone,
    /// How long a node lives without a heartbeat.
    pub lease: Lease,
    /// The longest time between two reads, even if nothing hints at new rows.
    pub poll_interval: Duration,
    /// How soon the next poll follows a read that found rows. The pause then doubles up to the poll interval.
    pub quick_poll: Option<Duration>,
    /// How often rows are looked for that the cursor has passed.
    pub sweep_interval: Duration,
    /// Where a leader takes rows: a row that was taken this long ago and not settled is released.
    pub processing_timeout: Duration,
    /// How long closing waits for what is in memory.
    pub drain: Duration,
    /// How long an outcome waits at most for others to be settled with.
    pub settle_linger: Duration,
    /// Outcomes settled in one call.
    pub settle_rows: usize,
    /// How long an event that was claimed and that nobody listens to is tried again; zero: dead at once.
    pub no_route_grace: Duration,
    /// A label for people, such as host and process.
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
            part: Part::Share,
            fetch_rows: 100,
            skip_recent: Duration::ZERO,
            max_attempts: 10,
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
    /// Every setting out of its range, first of all.
    pub fn validate(&self) -> Result<(), Invalid> {
        self.problems().into_iter().next().map_or(Ok(()), Err)
    }

    /// Every setting out of its range.
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
            ("max attempts", self.max_attempts as usize, 1_000_000),
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
            ("blame after", self.blame_after, Duration::ZERO, DAY * 365),
        ];
        let no_share = self.part == Part::OwnLane && self.order == Order::PerGroup;
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

    /// With one worker everything goes out in the order of its numbers, whatever its group.
    pub(crate) fn oldest_first(&self) -> bool {
        self.workers == 1
    }

    /// Rows of one group that may wait in memory, so that a large group leaves room for others.
    pub(crate) fn group_rows(&self) -> usize {
        (self.cold_rows / 4).max(self.batch).max(1)
    }
}
