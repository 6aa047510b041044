//! Seeded chance, and waiting that only moves the paused clock.

use std::time::Duration;

use fastrand::Rng;

/// Lets this much of the paused clock pass.
pub(crate) async fn pass(time: Duration) {
    if !time.is_zero() {
        let _ = tokio::time::timeout(time, std::future::pending::<()>()).await;
    }
}

/// Draws that read well.
pub(crate) trait Chance {
    /// True in this share of the cases.
    fn chance(&mut self, share: f64) -> bool;
    /// One of these.
    fn one<T: Copy>(&mut self, of: &[T]) -> T;
    /// Between these, in milliseconds.
    fn millis(&mut self, from: u64, to: u64) -> Duration;
}

impl Chance for Rng {
    fn chance(&mut self, share: f64) -> bool {
        self.f64() < share
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.usize(..of.len())]
    }

    fn millis(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(self.u64(from..=to))
    }
}
