//! Compares committed orders with delivered ones, to count lost, duplicate and reordered orders.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// An order as the receiver sees it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Order {
    /// The account of the order.
    pub(crate) account: u32,
    /// The number of the order within its account, from 1, assigned in the database.
    pub(crate) number: u64,
    /// The price. The receiver can't read a negative price until it is repaired.
    pub(crate) cents: i64,
    /// Whether its transaction was rolled back. Such an order must never arrive.
    pub(crate) refused: bool,
}

/// Counters of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub(crate) struct OrderCounts {
    pub(crate) written: u64,
    pub(crate) rolled_back: u64,
    pub(crate) delivered: u64,
    pub(crate) retried: u64,
    pub(crate) rejected: u64,
    pub(crate) duplicates: u64,
    pub(crate) order_violations: u64,
    pub(crate) phantoms: u64,
}

/// One account. Its orders are committed without gaps, so the highest number implies all others.
#[derive(Debug, Default)]
struct Account {
    written: u64,
    /// All orders up to this number have arrived.
    arrived: u64,
    /// Orders that arrived before an earlier one.
    early: BTreeSet<u64>,
    /// The first order that the receiver can't read until it is repaired.
    stuck_at: Option<u64>,
    last_worker: String,
}

/// Committed and delivered orders by account. Its size is bounded by the number of accounts.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    accounts: BTreeMap<u32, Account>,
    counts: OrderCounts,
    killed: Option<(String, Instant)>,
    taken_over: Option<Duration>,
}

impl Ledger {
    /// Records a committed order.
    pub(crate) fn committed(&mut self, order: &Order) {
        let account = self.accounts.entry(order.account).or_default();
        account.written = account.written.max(order.number);
        if order.cents < 0 {
            account.stuck_at = Some(order.number);
        }
        self.counts.written += 1;
    }

    /// Records an order that was rolled back.
    pub(crate) fn rolled_back(&mut self) {
        self.counts.rolled_back += 1;
    }

    /// Records a refusal that a retry can overcome.
    pub(crate) fn refused_for_now(&mut self) {
        self.counts.retried += 1;
    }

    /// Records an order that the receiver rejected for good.
    pub(crate) fn rejected(&mut self) {
        self.counts.rejected += 1;
    }

    /// Records an order that the receiver accepted.
    pub(crate) fn arrived(&mut self, order: &Order, worker: &str) {
        if order.refused {
            self.counts.phantoms += 1;
            return;
        }
        let account = self.accounts.entry(order.account).or_default();
        if order.number <= account.arrived || account.early.contains(&order.number) {
            self.counts.duplicates += 1;
            return;
        }
        self.counts.delivered += 1;
        if order.number == account.arrived + 1 {
            account.arrived += 1;
            while account.early.remove(&(account.arrived + 1)) {
                account.arrived += 1;
            }
        } else {
            self.counts.order_violations += 1;
            account.early.insert(order.number);
        }
        if let Some((killed, at)) = &self.killed
            && self.taken_over.is_none()
            && account.last_worker == *killed
            && worker != killed
        {
            self.taken_over = Some(at.elapsed());
        }
        worker.clone_into(&mut account.last_worker);
    }

    /// Records that a worker was killed.
    pub(crate) fn killed(&mut self, worker: &str) {
        self.killed = Some((worker.to_owned(), Instant::now()));
    }

    /// The time from the kill until another worker delivered for an account of the killed one.
    pub(crate) fn taken_over(&self) -> Option<Duration> {
        self.taken_over
    }

    /// The counters so far.
    pub(crate) fn counts(&self) -> OrderCounts {
        self.counts
    }

    /// The number of orders that can arrive before the repair: in each account, those before the first
    /// unreadable one.
    pub(crate) fn deliverable_unrepaired(&self) -> u64 {
        self.accounts.values().map(|account| account.stuck_at.map_or(account.written, |at| at - 1)).sum()
    }

    /// The number of accounts with an order that the receiver can't read.
    pub(crate) fn stuck_accounts(&self) -> u64 {
        self.accounts.values().filter(|account| account.stuck_at.is_some()).count() as u64
    }

    /// The number of committed orders that have not arrived.
    pub(crate) fn lost(&self) -> u64 {
        let lost = |account: &Account| {
            let early = account.early.range(..=account.written).count() as u64;
            account.written.saturating_sub(account.arrived + early)
        };
        self.accounts.values().map(lost).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(account: u32, number: u64) -> Order {
        Order { account, number, cents: 1, refused: false }
    }

    fn ledger(arrivals: &[u64]) -> Ledger {
        let mut ledger = Ledger::default();
        (1..=4).for_each(|number| ledger.committed(&order(1, number)));
        arrivals.iter().for_each(|&number| ledger.arrived(&order(1, number), "a"));
        ledger
    }

    #[test]
    fn all_in_order_is_perfect() {
        let ledger = ledger(&[1, 2, 3, 4]);
        assert_eq!(ledger.counts(), OrderCounts { written: 4, delivered: 4, ..OrderCounts::default() });
        assert_eq!(ledger.lost(), 0);
    }

    #[test]
    fn what_does_not_arrive_is_lost() {
        assert_eq!(ledger(&[]).lost(), 4);
        assert_eq!(ledger(&[1, 2, 2, 2]).lost(), 2);
        assert_eq!(ledger(&[4]).lost(), 3);
    }

    #[test]
    fn what_comes_again_is_a_duplicate_and_no_violation() {
        let counts = ledger(&[1, 2, 1, 2, 3, 4]).counts();
        assert_eq!((counts.duplicates, counts.order_violations, counts.delivered), (2, 0, 4));
    }

    #[test]
    fn what_overtakes_is_a_violation() {
        let ledger = ledger(&[2, 1, 4, 4, 3]);
        let counts = ledger.counts();
        assert_eq!((counts.duplicates, counts.order_violations, counts.delivered), (1, 2, 4));
        assert_eq!(ledger.lost(), 0);
    }

    #[test]
    fn what_was_rolled_back_and_arrives_is_a_phantom() {
        let mut ledger = ledger(&[1, 2, 3, 4]);
        ledger.arrived(&Order { refused: true, ..order(1, 5) }, "a");
        assert_eq!((ledger.counts().phantoms, ledger.counts().delivered), (1, 4));
    }

    #[test]
    fn orders_behind_one_that_is_stuck_are_not_expected_yet() {
        let mut ledger = ledger(&[]);
        ledger.committed(&Order { cents: -5, ..order(2, 1) });
        ledger.committed(&order(2, 2));
        assert_eq!((ledger.deliverable_unrepaired(), ledger.stuck_accounts()), (4, 1));
    }

    #[test]
    fn a_takeover_is_seen_when_a_group_goes_on_with_another_worker() {
        let mut ledger = ledger(&[1]);
        ledger.killed("a");
        ledger.arrived(&order(9, 1), "b");
        assert!(ledger.taken_over().is_none());
        ledger.arrived(&order(1, 2), "b");
        assert!(ledger.taken_over().is_some());
    }
}
