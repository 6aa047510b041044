//! The memory store's clock: replaces a database's clock, and can be moved by tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// A clock that follows Tokio's clock, paused or not, and can be moved. All clones share one clock.
#[derive(Debug, Clone)]
pub struct MemoryClock {
    base_us: i64,
    start: Instant,
    offset_us: Arc<AtomicI64>,
}

impl MemoryClock {
    /// Creates a clock that shows this time now.
    #[must_use]
    pub fn starting_at(base: Timestamp) -> Self {
        Self { base_us: base.as_microsecond(), start: Instant::now(), offset_us: Arc::default() }
    }

    /// Returns the current time, in whole microseconds.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        let elapsed_us = i64::try_from(self.start.elapsed().as_micros()).unwrap_or(i64::MAX);
        let offset_us = self.offset_us.load(Ordering::Relaxed);
        let now_us = self.base_us.saturating_add(elapsed_us).saturating_add(offset_us);
        let end = if offset_us < 0 { Timestamp::MIN } else { Timestamp::MAX };
        Timestamp::from_microsecond(now_us).unwrap_or(end)
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        self.jump(SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX));
    }

    /// Moves the clock in either direction, like a database's clock that is set or fails over.
    pub fn jump(&self, by: SignedDuration) {
        let by = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
        let moved = |offset: i64| Some(offset.saturating_add(by));
        let _ = self.offset_us.fetch_update(Ordering::Relaxed, Ordering::Relaxed, moved);
    }
}

impl Default for MemoryClock {
    /// Starts at the wall clock's current time.
    fn default() -> Self {
        Self::starting_at(Timestamp::now())
    }
}
