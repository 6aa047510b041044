//! Retry policies: the delay before the next attempt.

use std::time::Duration;

/// Decides the delay after a failed attempt. `attempts` counts from 1; `random` is uniform in [0, 1).
pub trait RetryPolicy: Send + Sync {
    /// The delay before the next attempt.
    fn delay(&self, attempts: u32, random: f64) -> Duration;
}

/// Maximum number of attempts of an event.
pub(crate) const ATTEMPTS_MAX: u32 = 1_000_000;

/// The longest delay of policies that give up after a time.
const LONGEST_PATIENT: Duration = Duration::from_secs(300);

/// The number of attempts that a policy makes in about this time, without the time that attempts take.
pub(crate) fn attempts_within(policy: &dyn RetryPolicy, time: Duration) -> u32 {
    let (mut attempts, mut waited) = (1, Duration::ZERO);
    while attempts < ATTEMPTS_MAX {
        waited = waited.saturating_add(policy.delay(attempts, 0.5));
        if waited > time {
            break;
        }
        attempts += 1;
    }
    attempts
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

impl Exponential {
    /// From 200 ms up to 5 min, for events that are given up after a time.
    #[must_use]
    pub const fn patient() -> Self {
        Self { base: Duration::from_millis(200), max: LONGEST_PATIENT }
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

impl Doubling {
    /// Up to 5 min, for messages that are given up after a time.
    #[must_use]
    pub const fn patient() -> Self {
        Self { max: LONGEST_PATIENT }
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

    /// PBX-217
    #[test]
    fn attempts_within_a_time_follow_the_delays_of_the_policy() {
        let within =
            |policy: &dyn RetryPolicy, seconds| attempts_within(policy, Duration::from_secs(seconds));
        let every = Fixed(Duration::from_secs(10));
        assert_eq!([0, 9, 10, 95].map(|seconds| within(&every, seconds)), [1, 1, 2, 10]);
        assert_eq!(within(&Doubling::default(), 2 + 4 + 8), 4);
        assert_eq!(within(&Fixed(Duration::ZERO), 1), ATTEMPTS_MAX, "it ends");
        let days = 3 * 24 * 3_600;
        assert!((860..900).contains(&within(&Exponential::patient(), days)));
        assert!((860..900).contains(&within(&Doubling::patient(), days)));
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
