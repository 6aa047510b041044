//! Runs the example and judges what arrived when.

use super::*;

fn of(account: &str, bookings: &[Booking]) -> Vec<u32> {
    bookings.iter().filter(|booking| booking.0 == account).map(|booking| booking.1).collect()
}

/// PBX-010: a retry keeps the order of its account and delays no other; a dead event blocks its account, across a
/// restart too, until it is replayed, and then comes first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bookings_of_an_account_arrive_in_order_whatever_fails() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bank.db");
    let (first, second) = run(&file).await.unwrap();
    assert_eq!(of("alice", &first), [1, 2, 3]);
    assert_eq!(of("bob", &first), [1, 2, 3]);
    assert_eq!(of("carol", &first), [1]);
    assert_eq!(second, [("carol", 2), ("carol", 3)]);
    let stats = SqliteStore::open(&file).unwrap().stats().await.unwrap();
    assert_eq!((stats.by_status(), stats.blocked_groups, stats.nodes), ([0, 9, 0, 0], 0, 0));
}
