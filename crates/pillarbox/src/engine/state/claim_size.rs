//! The size of claims: how many messages the claimer may have in memory before they are handled.

use std::time::Duration;

/// Messages in memory before the first of them has been handled.
const AT_FIRST: usize = 50;
/// Weight of the last message in the average time of a handler.
const WEIGHT: u32 = 8;
/// Share of the lease for which claimed messages may wait for a worker.
const SHARE_OF_LEASE: u32 = 10;
/// Maximum time for which claimed messages may wait for a worker.
const LONGEST_WAIT: Duration = Duration::from_millis(100);

/// How many messages may be in memory.
///
/// By default it follows the speed of the handlers. Fast handlers get large claims, because each claim has a fixed
/// cost. Slow handlers get few messages, because other workers could handle the messages that wait here.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClaimSize {
    max: usize,
    /// Time for which messages may wait for a worker; `None` if the size is fixed.
    wait: Option<Duration>,
    /// Average time of one message in a worker.
    handling: Option<Duration>,
}

impl ClaimSize {
    /// A size that never changes.
    pub(crate) const fn fixed(max: usize) -> Self {
        Self { max, wait: None, handling: None }
    }

    /// A size that follows the handlers, up to `max`.
    pub(crate) fn following_handlers(max: usize, lease: Duration) -> Self {
        Self { max, wait: Some(LONGEST_WAIT.min(lease / SHARE_OF_LEASE)), handling: None }
    }

    /// Notes how long a worker took for each message of a batch.
    pub(crate) fn handled(&mut self, took: Duration) {
        let average = self.handling.get_or_insert(took);
        *average = (*average * (WEIGHT - 1) + took) / WEIGHT;
    }

    /// Number of messages that may be in memory for this many workers.
    ///
    /// At least two for each worker, so that a worker finds its next message in memory.
    pub(crate) fn rows(&self, workers: usize) -> usize {
        let Some(wait) = self.wait else { return self.max };
        let rows = match self.handling {
            None => AT_FIRST,
            Some(handling) => {
                let rows = wait.as_nanos() * workers as u128 / handling.as_nanos().max(1);
                usize::try_from(rows).unwrap_or(usize::MAX)
            }
        };
        rows.max(2 * workers).min(self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(30);

    fn after(took: &[Duration]) -> usize {
        let mut size = ClaimSize::following_handlers(1_000, LEASE);
        took.iter().for_each(|took| size.handled(*took));
        size.rows(4)
    }

    #[test]
    fn fast_handlers_get_large_claims_and_slow_ones_small_claims() {
        assert_eq!(after(&[]), AT_FIRST);
        assert_eq!(after(&[Duration::ZERO]), 1_000);
        assert_eq!(after(&[Duration::from_millis(10)]), 40);
        assert_eq!(after(&[Duration::from_secs(1)]), 8);
    }

    #[test]
    fn the_size_follows_a_change_of_speed() {
        let mut took = vec![Duration::from_micros(10); 100];
        took.extend([Duration::from_secs(1); 2]);
        assert_eq!(after(&took), 8);
        took.extend([Duration::from_micros(10); 100]);
        assert_eq!(after(&took), 1_000);
    }

    #[test]
    fn a_short_lease_makes_claims_smaller() {
        let mut size = ClaimSize::following_handlers(1_000, Duration::from_millis(100));
        size.handled(Duration::from_millis(1));
        assert_eq!(size.rows(4), 40);
        assert_eq!(ClaimSize::fixed(7).rows(4), 7);
    }
}
