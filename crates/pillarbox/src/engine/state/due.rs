//! Due times: the times, as far as this node knows, at which delayed rows must be promoted.

use std::collections::BTreeSet;

use tokio::time::Instant;

/// Maximum number of due times in memory; heartbeats report later ones again.
const MOST: usize = 256;

/// The known due times of delayed rows, and whether a read must come before the next promotion.
#[derive(Debug, Default)]
pub(crate) struct Dues {
    times: BTreeSet<Instant>,
    /// Whether a read must come before the next promotion. Without this, rows that stay
    /// due would starve all reads.
    read_first: bool,
}

impl Dues {
    /// Adds a due time. Returns true if it is the earliest.
    pub(crate) fn add(&mut self, at: Instant) -> bool {
        let nearest = self.times.first().is_none_or(|first| at < *first);
        self.times.insert(at);
        if self.times.len() > MOST {
            self.times.pop_last();
        }
        nearest
    }

    /// Time of the next promotion; `None` while a read must come first.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.times.first().copied().filter(|_| !self.read_first)
    }

    /// Begins a promotion if one is due. Later times are kept, and so are times added
    /// while it is in progress.
    pub(crate) fn begin(&mut self, now: Instant) -> bool {
        let due = self.next().is_some_and(|at| at <= now);
        if due {
            self.times = self.times.split_off(&now);
            self.times.remove(&now);
            self.read_first = true;
        }
        due
    }

    /// Notes that a read has begun.
    pub(crate) fn read_began(&mut self) {
        self.read_first = false;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// PBX-014
    #[test]
    fn a_promotion_takes_what_is_due_and_leaves_what_is_not() {
        let (now, mut dues) = (Instant::now(), Dues::default());
        let later = now + Duration::from_secs(1);
        assert!(dues.add(later));
        assert!(dues.add(now));
        assert!(!dues.add(later + Duration::from_secs(1)));
        assert!(dues.begin(now));
        assert!(dues.add(now), "it came while the promotion was under way");
        assert!(!dues.begin(now), "a read comes first");
        assert_eq!(dues.next(), None);
        dues.read_began();
        assert!(dues.begin(now));
        dues.read_began();
        assert_eq!(dues.next(), Some(later));
    }

    /// PBX-013
    #[test]
    fn the_nearest_times_are_kept() {
        let (now, mut dues) = (Instant::now(), Dues::default());
        for n in (0..2 * MOST as u64).rev() {
            dues.add(now + Duration::from_secs(n));
        }
        assert_eq!((dues.times.len(), dues.next()), (MOST, Some(now)));
    }
}
