//! The pace of requests: limits their number in flight and the gap between them after failures.

use std::time::Duration;

use tokio::time::Instant;

/// Wait after a first throttled request, while the endpoint's limit is unknown.
const FIRST_WAIT: Duration = Duration::from_millis(20);
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// Gap between requests after the first throttling, and the maximum gap.
const FIRST_GAP: Duration = Duration::from_millis(50);
const LONGEST_GAP: Duration = Duration::from_secs(10);
/// A shorter gap is dropped.
const SHORTEST_GAP: Duration = Duration::from_millis(1);

/// Limits requests in flight and requests per second. Without failures and throttling it limits nothing.
///
/// The limit in flight grows like TCP slow start: by one with each answer, so it doubles with
/// each round. The gap between requests at most doubles when the endpoint throttles, and shrinks
/// by 5% with each accepted batch.
#[derive(Debug)]
pub(crate) struct Pace {
    /// Maximum number of requests in flight.
    window: usize,
    /// Number of requests in flight that were sent since the window was last reset.
    in_flight: usize,
    gap: Duration,
    /// Earliest time of the next request, to keep the gap.
    next: Option<Instant>,
    /// Earliest time of the next request, because the endpoint throttles.
    held: Option<Instant>,
    /// Time at which the last accepted request was sent.
    accepted_at: Option<Instant>,
    /// Number of throttled requests in a row.
    refusals: u32,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            window: usize::MAX,
            in_flight: 0,
            gap: Duration::ZERO,
            next: None,
            held: None,
            accepted_at: None,
            refusals: 0,
        }
    }
}

impl Pace {
    pub(crate) fn is_full(&self) -> bool {
        self.in_flight >= self.window
    }

    /// Earliest time of the next request; `None` if it may be sent now.
    pub(crate) fn wait(&self, now: Instant) -> Option<Instant> {
        self.next.max(self.held).filter(|next| now < *next)
    }

    pub(crate) fn sent(&mut self, now: Instant) {
        self.in_flight += 1;
        self.next = (!self.gap.is_zero()).then(|| now + self.gap);
    }

    pub(crate) fn back(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// Resets the window to one request, to grow with each answer. Earlier requests may hang,
    /// so they no longer count.
    pub(crate) fn restart(&mut self) {
        self.window = 1;
        self.in_flight = 0;
    }

    pub(crate) fn answered(&mut self) {
        self.window = self.window.saturating_add(1);
    }

    /// Records that a batch sent at this time was accepted.
    pub(crate) fn accepted(&mut self, sent_at: Instant) {
        if self.refusals > 0 {
            // The time since the last accepted request is a gap that the endpoint tolerates. An endpoint with
            // a limit per second tolerates shorter gaps within that second, so the gap at most doubles.
            let borne = self.accepted_at.map_or(FIRST_GAP, |at| sent_at.saturating_duration_since(at));
            self.gap = borne.clamp(self.gap, (self.gap * 2).max(FIRST_GAP)).min(LONGEST_GAP);
            self.refusals = 0;
        } else {
            self.gap = Some(self.gap * 95 / 100).filter(|gap| *gap >= SHORTEST_GAP).unwrap_or_default();
        }
        self.accepted_at = Some(sent_at);
    }

    /// Restarts the count of throttled requests, because a part of the batch was accepted.
    pub(crate) fn relent(&mut self) {
        self.refusals = 0;
    }

    /// Waits as long as the throttling endpoint asks for, or with a wait that doubles for each throttled
    /// request in a row.
    pub(crate) fn throttled(&mut self, now: Instant, after: Option<Duration>) {
        self.restart();
        let first = (self.gap / 4).max(FIRST_WAIT);
        let backoff = first.saturating_mul(1 << self.refusals.min(12)).min(LONGEST_WAIT);
        self.refusals = self.refusals.saturating_add(1);
        self.next = None;
        self.hold(now + after.filter(|after| !after.is_zero()).unwrap_or(backoff));
    }

    /// Sends nothing before this time.
    pub(crate) fn hold(&mut self, until: Instant) {
        self.held = self.held.max(Some(until));
    }
}
