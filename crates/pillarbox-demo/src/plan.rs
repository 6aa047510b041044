//! Plans the orders of a run; the same seed gives the same orders.

use std::time::Duration;

use fastrand::Rng;

/// Bounds of `--events`. With fewer, the run ends before the kill; with more, it takes too long.
pub(crate) const EVENTS: std::ops::RangeInclusive<u64> = 50..=100_000;

/// The end of an order's transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The transaction commits.
    Paid,
    /// The card is refused at the last moment, so the transaction is rolled back.
    CardRefused,
}

/// An order to place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Planned {
    pub(crate) account: u32,
    /// The price. The receiver can't read a negative price until it is repaired.
    pub(crate) cents: i64,
    pub(crate) fate: Fate,
}

/// The plan of a run.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) events: u64,
    pub(crate) accounts: u32,
    pub(crate) orders: Vec<Planned>,
    /// The lease of a worker: how long the accounts of a killed worker wait.
    pub(crate) lease: Duration,
}

impl Plan {
    /// The number of committed orders per order that is rolled back.
    const PAID_PER_REFUSED: u64 = 25;
    /// The number of accounts per account with an unreadable order.
    const ACCOUNTS_PER_STUCK: u32 = 8;
    /// The approximate duration of writing, long enough to watch.
    const WRITING: Duration = Duration::from_secs(5);
    const SLOWEST_PER_SECOND: u64 = 400;

    pub(crate) fn new(events: u64, seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let accounts = u32::try_from(events / 50).unwrap_or(u32::MAX).clamp(4, 40);
        let mut orders = Vec::new();
        for number in 0..events {
            if number % Self::PAID_PER_REFUSED == Self::PAID_PER_REFUSED - 1 {
                orders.push(Planned { fate: Fate::CardRefused, ..any(&mut rng, accounts) });
            }
            orders.push(any(&mut rng, accounts));
        }
        let mut plan = Self { seed, events, accounts, orders, lease: Duration::from_secs(2) };
        plan.spoil(&mut rng);
        plan
    }

    /// Makes one order unreadable in some accounts, in some before the crash and in some after it.
    fn spoil(&mut self, rng: &mut Rng) {
        let mut accounts: Vec<u32> = (1..=self.accounts).collect();
        rng.shuffle(&mut accounts);
        accounts.truncate((self.accounts / Self::ACCOUNTS_PER_STUCK).max(1) as usize);
        let first = self.orders.len() / 8;
        for account in accounts {
            let later = self.orders[first..].iter_mut();
            let paid = later.filter(|order| order.account == account && order.fate == Fate::Paid);
            if let Some(order) = rng.choice(paid.collect::<Vec<_>>()) {
                order.cents = -order.cents;
            }
        }
    }

    /// Orders per second.
    pub(crate) fn rate(&self) -> u64 {
        (self.events / Self::WRITING.as_secs()).max(Self::SLOWEST_PER_SECOND)
    }

    /// The number of deliveries before the kill.
    pub(crate) fn kill_after(&self) -> u64 {
        self.events * 3 / 10
    }
}

/// A random order that the receiver can read.
pub(crate) fn any(rng: &mut Rng, accounts: u32) -> Planned {
    Planned { account: rng.u32(1..=accounts), cents: rng.i64(100..50_000), fate: Fate::Paid }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_plans_the_same_orders() {
        assert_eq!(Plan::new(500, 7).orders, Plan::new(500, 7).orders);
        assert_ne!(Plan::new(500, 7).orders, Plan::new(500, 8).orders);
    }

    #[test]
    fn every_plan_has_all_that_is_to_be_shown() {
        for (events, seed) in [(50, 1), (100, 2), (2_000, 3)] {
            let plan = Plan::new(events, seed);
            let paid = plan.orders.iter().filter(|order| order.fate == Fate::Paid);
            assert_eq!(paid.count() as u64, events);
            let unreadable = plan.orders.iter().filter(|order| order.cents < 0).count() as u32;
            assert!((1..=plan.accounts / 4).contains(&unreadable), "{events}: {unreadable}");
            assert!(plan.kill_after() > 0);
        }
    }
}
