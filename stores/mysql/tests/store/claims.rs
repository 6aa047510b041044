//! Claims with and without locks that are skipped.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use pillarbox::model::{Event, NewRow, OwnerId, Placement};
use pillarbox::port::{Claim, ClaimFrom, Store, Table, Write};
use pillarbox_mysql::{Claiming, MysqlStore};
use tokio::task::JoinSet;

use crate::kit::Fixture;

const ROWS: usize = 10_000;
const CLAIMERS: usize = 6;

fn queued(prefix: &str, count: usize) -> Vec<NewRow> {
    let row = |n| NewRow {
        event: Event::text("OrderPlaced", "{}").id(format!("{prefix}{n}")).build().unwrap(),
        placement: Placement::Queue,
    };
    (0..count).map(row).collect()
}

fn claim(owner: &OwnerId, rows: usize, from: ClaimFrom) -> Claim {
    Claim {
        topics: std::sync::Arc::default(),
        owner: owner.clone(),
        lease: Duration::from_secs(600),
        rows,
        bytes: pillarbox::port::ByteLimits::NONE,
        from,
        skip_recent: Duration::ZERO,
        now: None,
    }
}

/// Claims until nothing is left.
async fn claim_all(store: MysqlStore, batch: usize, from: ClaimFrom) -> Vec<String> {
    let owner = OwnerId::random();
    let mut ids = Vec::new();
    loop {
        let rows = store.claim(claim(&owner, batch, from)).await.unwrap();
        if rows.is_empty() {
            return ids;
        }
        assert!(rows.iter().all(|row| row.attempts == 1 && row.token.0 == 1));
        ids.extend(rows.iter().map(|row| row.id.to_string()));
    }
}

async fn every_row_once(fixture: &Fixture, claiming: Claiming, count: usize, from: ClaimFrom) -> Duration {
    let store = fixture.store().await;
    for chunk in queued("q", count).chunks(500) {
        let mut rows = chunk.to_vec();
        if from == ClaimFrom::Events {
            rows.iter_mut().for_each(|row| row.placement = Placement::Slot);
        }
        store.write(Write { rows, now: None }).await.unwrap();
    }
    let (mut claimers, began) = (JoinSet::new(), Instant::now());
    for _ in 0..CLAIMERS {
        claimers.spawn(claim_all(fixture.builder().claiming(claiming).open(), 100, from));
    }
    let claimed: Vec<String> = claimers.join_all().await.into_iter().flatten().collect();
    let took = began.elapsed();
    assert_eq!(claimed.len(), count, "each row once");
    assert_eq!(claimed.iter().collect::<BTreeSet<_>>().len(), count);
    took
}

/// RLY-010, RLY-011: ten thousand rows, six claimers, each row exactly once.
#[tokio::test(flavor = "multi_thread")]
async fn six_claimers_take_every_row_exactly_once() {
    for fixture in Fixture::all().await {
        let took = every_row_once(&fixture, Claiming::Detect, ROWS, ClaimFrom::Queue).await;
        let rate = ROWS as f64 / took.as_secs_f64();
        println!("{}: {ROWS} rows by {CLAIMERS} claimers in {took:.2?}, {rate:.0}/s", fixture.database);
    }
}

/// RLY-010: where no lock is skipped, claims wait for each other, and each row is claimed once all the same.
#[tokio::test(flavor = "multi_thread")]
async fn claims_by_update_take_every_row_exactly_once() {
    for from in [ClaimFrom::Queue, ClaimFrom::Events] {
        for fixture in Fixture::all().await {
            every_row_once(&fixture, Claiming::Update, 1_000, from).await;
        }
    }
}

/// RLY-010: claims by update answer with what a claim that skips locks answers with.
#[tokio::test(flavor = "multi_thread")]
async fn claims_by_update_keep_the_order_and_leave_what_is_claimed() {
    for fixture in Fixture::all().await {
        fixture.store().await;
        let store = fixture.builder().claiming(Claiming::Update).open();
        store.write(Write { rows: queued("q", 5), now: None }).await.unwrap();
        let owner = OwnerId::random();
        let ids = |rows: &[pillarbox::model::Row]| -> Vec<String> {
            rows.iter().map(|row| row.id.to_string()).collect()
        };
        let first = store.claim(claim(&owner, 2, ClaimFrom::Queue)).await.unwrap();
        assert_eq!(ids(&first), ["q0", "q1"]);
        let rest = store.claim(claim(&owner, 9, ClaimFrom::Queue)).await.unwrap();
        assert_eq!(ids(&rest), ["q2", "q3", "q4"]);
        assert!(store.claim(claim(&owner, 9, ClaimFrom::Queue)).await.unwrap().is_empty());
        let held = format!("SELECT count(*) FROM outbox_event WHERE locked_by = '{}'", owner.as_str());
        assert_eq!(fixture.number(&held).await, 5, "no mark of a claim is left");
    }
}
