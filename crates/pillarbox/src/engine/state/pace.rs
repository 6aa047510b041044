//! The pace of requests: how many are in flight and how far apart they are sent, as the endpoint bears it.

use std::time::Duration;

use tokio::time::Instant;

/// The wait after a first refusal, while nothing is known of the endpoint's limit.
const FIRST_WAIT: Duration = Duration::from_millis(20);
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// The gap between requests after a first refusal, and the longest.
const FIRST_GAP: Duration = Duration::from_millis(50);
const LONGEST_GAP: Duration = Duration::from_secs(10);
/// A shorter gap is none.
const SHORTEST_GAP: Duration = Duration::from_millis(1);

/// Limits requests in flight and requests per second. Without trouble it limits nothing.
///
/// The limit in flight grows as TCP's slow start does: by one with each answer, so it doubles with each round. The gap between
/// requests grows to at most twice its length when the endpoint throttles, and shrinks by 5% with each batch it accepts.
#[derive(Debug)]
pub(crate) struct Pace {
    /// Requests that may be in flight.
    window: usize,
    /// Those in flight, as far as they were sent since the window was last cut.
    in_flight: usize,
    gap: Duration,
    /// Nothing is sent before this time, to keep the gap.
    next: Option<Instant>,
    /// Nothing is sent before this time, because the endpoint throttles.
    held: Option<Instant>,
    /// When the last request that was accepted was sent.
    accepted_at: Option<Instant>,
    /// Refusals in a row.
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

    /// When the next request may be sent, unless that is now.
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

    /// One request at a time from here on, more with each answer. Those in flight may hang: they do not count.
    pub(crate) fn restart(&mut self) {
        self.window = 1;
        self.in_flight = 0;
    }

    pub(crate) fn answered(&mut self) {
        self.window = self.window.saturating_add(1);
    }

    /// A batch sent at this time was accepted.
    pub(crate) fn accepted(&mut self, sent_at: Instant) {
        if self.refusals > 0 {
            // The time since the last accepted request is a gap that the endpoint bears. One that opens its gate once a second
            // bears shorter gaps within that second, so the gap at most doubles.
            let borne = self.accepted_at.map_or(FIRST_GAP, |at| sent_at.saturating_duration_since(at));
            self.gap = borne.clamp(self.gap, (self.gap * 2).max(FIRST_GAP)).min(LONGEST_GAP);
            self.refusals = 0;
        } else {
            self.gap = Some(self.gap * 95 / 100).filter(|gap| *gap >= SHORTEST_GAP).unwrap_or_default();
        }
        self.accepted_at = Some(sent_at);
    }

    /// A part of a batch was accepted: the refusal that follows is the first in a row.
    pub(crate) fn relent(&mut self) {
        self.refusals = 0;
    }

    /// The endpoint throttles: it says for how long, or the wait doubles with each refusal in a row.
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
