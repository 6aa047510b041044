//! Lease arithmetic: when to renew a lease, and how long its holder may act.

use std::time::Duration;

use crate::model::Invalid;

/// The time for which a node or a claim is valid without renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease(Duration);

impl Lease {
    /// The shortest lease that leaves room for renewals on a slow database.
    pub const MIN: Duration = Duration::from_millis(300);
    /// The longest lease: the rows of a crashed holder wait this long.
    pub const MAX: Duration = Duration::from_secs(24 * 60 * 60);

    /// Creates a lease of 300 ms to 24 h.
    pub fn new(length: Duration) -> Result<Self, Invalid> {
        if (Self::MIN..=Self::MAX).contains(&length) {
            return Ok(Self(length));
        }
        Err(Invalid::range("lease", format!("{length:?}"), "300ms to 24h"))
    }

    /// The length of the lease.
    #[must_use]
    pub const fn length(self) -> Duration {
        self.0
    }

    /// The time between renewals: a third of the lease, so that two renewals may fail.
    #[must_use]
    pub fn renew_after(self) -> Duration {
        self.0 / 3
    }

    /// How long the holder may start work after it *sent* the renewal: the lease minus a margin of an eighth.
    /// Counted from sending, because the database may have renewed at any time since.
    #[must_use]
    pub fn usable_for(self) -> Duration {
        self.0 - self.0 / 8
    }
}

impl Default for Lease {
    /// 15 s.
    fn default() -> Self {
        Self(Duration::from_secs(15))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PBX-011
    #[test]
    fn a_holder_renews_early_and_stops_before_the_end() {
        let lease = Lease::default();
        assert!(lease.renew_after() * 2 < lease.usable_for());
        assert!(lease.usable_for() < lease.length());
        assert!(Lease::new(Duration::ZERO).is_err());
        assert!(Lease::new(Duration::MAX).is_err());
    }
}
