//! Lease arithmetic: when to renew, and until when a holder may act.

use std::time::Duration;

use crate::model::Invalid;

/// How long a node or claim is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease(Duration);

impl Lease {
    /// The shortest lease that leaves room for renewals on a slow database.
    pub const MIN: Duration = Duration::from_millis(300);
    /// The longest: a dead holder's work would wait this long.
    pub const MAX: Duration = Duration::from_secs(24 * 60 * 60);

    /// Checks the length: 300 ms to 24 h.
    pub fn new(length: Duration) -> Result<Self, Invalid> {
        if (Self::MIN..=Self::MAX).contains(&length) {
            return Ok(Self(length));
        }
        Err(Invalid::range("lease", format!("{length:?}"), "300ms to 24h"))
    }

    /// Its length.
    #[must_use]
    pub const fn length(self) -> Duration {
        self.0
    }

    /// Renew this long after the last renewal: a third, so that two may fail.
    #[must_use]
    pub fn renew_after(self) -> Duration {
        self.0 / 3
    }

    /// Start nothing later than this after the renewal was *asked for*: the end less a margin of an eighth.
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
