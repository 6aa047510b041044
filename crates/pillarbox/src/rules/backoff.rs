//! Retry policies: the delay before the next attempt.

use std::time::Duration;

/// Decides the delay after a failed attempt. `attempts` counts from 1; `random` is uniform in [0, 1).
pub trait RetryPolicy: Send + Sync {
    /// The delay before the next attempt.
    fn delay(&self, attempts: u32, random: f64) -> Duration;
}

/// `min(max, base * 2^(attempts-1))` times a random factor in [0.5, 1.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exponential {
    /// The delay after the first failure.
    pub base: Duration,
    /// The longest delay, before the random factor.
    pub max: Duration,
}

impl Default for Exponential {
    /// Starts at 200 ms and grows up to 60 s.
    fn default() -> Self {
        Self { base: Duration::from_millis(200), max: Duration::from_secs(60) }
    }
}

impl RetryPolicy for Exponential {
    fn delay(&self, attempts: u32, random: f64) -> Duration {
        let factor = 1_u32.checked_shl(attempts.saturating_sub(1)).unwrap_or(u32::MAX);
        let delay = self.base.saturating_mul(factor).min(self.max);
        delay.mul_f64(0.5 + random.clamp(0.0, 1.0))
    }
}

/// 2, 4, 8 … seconds, up to a maximum: `min(2^attempts, max)`. The queue's policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Doubling {
    /// The longest delay.
    pub max: Duration,
}

impl Default for Doubling {
    /// Up to 60 s.
    fn default() -> Self {
        Self { max: Duration::from_secs(60) }
    }
}

impl RetryPolicy for Doubling {
    fn delay(&self, attempts: u32, _random: f64) -> Duration {
        Duration::from_secs(1_u64.checked_shl(attempts).unwrap_or(u64::MAX)).min(self.max)
    }
}

/// The same delay each time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fixed(pub Duration);

impl RetryPolicy for Fixed {
    fn delay(&self, _attempts: u32, _random: f64) -> Duration {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OBX-061, OBX-062
    #[test]
    fn the_queue_waits_two_to_the_power_of_its_retries_up_to_a_minute() {
        let policy = Doubling::default();
        let seconds = |attempts| policy.delay(attempts, 0.9).as_secs();
        assert_eq!(
            [1, 2, 3, 4, 5, 6, 7, 63, 64, u32::MAX].map(seconds),
            [2, 4, 8, 16, 32, 60, 60, 60, 60, 60]
        );
    }

    /// EVT-100
    #[test]
    fn delays_double_up_to_the_maximum_with_jitter_and_never_overflow() {
        let policy = Exponential::default();
        let middle = |attempts| policy.delay(attempts, 0.5).as_millis();
        assert_eq!([1, 2, 3, 4].map(middle), [200, 400, 800, 1_600]);
        for attempts in [9, 10, 31, 32, 33, 64, u32::MAX] {
            assert!(middle(attempts) <= 60_000, "{attempts}");
        }
        assert_eq!(middle(u32::MAX), 60_000);
        assert_eq!(policy.delay(1, 0.0), Duration::from_millis(100));
        assert!(policy.delay(1, 0.999) < Duration::from_millis(300));
        assert_eq!(policy.delay(0, 0.5), Duration::from_millis(200));
    }
}
