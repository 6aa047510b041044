//! Business transactions are never the victims of what the store does beside them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use pillarbox::model::{Event, NewRow, OwnerId, Placement};
use pillarbox::port::{
    Admin, Change, Claim, ClaimFrom, Cursor, Fence, OnDone, Outcome, Purge, PurgeStatus, Settle, Store,
    Table, WriteOn,
};
use pillarbox_mysql::sqlx::mysql::MySqlDatabaseError;
use pillarbox_mysql::sqlx::{Error, Row, query};
use tokio::task::JoinSet;

use crate::kit::{Fixture, fetch_from};

const WRITERS: usize = 8;
const CLAIMERS: usize = 4;
const LASTS: Duration = Duration::from_secs(10);
const DEADLOCK: u16 = 1213;

/// What the writers met.
#[derive(Default)]
struct Tally {
    over: AtomicBool,
    written: AtomicU64,
    deadlocks: AtomicU64,
    settled: AtomicU64,
}

fn is_deadlock(error: &Error) -> bool {
    let number = error.as_database_error().and_then(|error| error.try_downcast_ref::<MySqlDatabaseError>());
    number.is_some_and(|error| error.number() == DEADLOCK)
}

/// Business rows and events in one transaction of the application's pool, under the server's default isolation.
async fn write(fixture: Arc<Fixture>, tally: Arc<Tally>, writer: usize) {
    let store = fixture.beside();
    for n in 0.. {
        if tally.over.load(Ordering::Relaxed) {
            return;
        }
        let mut tx = fixture.pool.begin().await.unwrap();
        let order =
            query("INSERT INTO orders (id) VALUES (?)").bind(format!("{writer}-{n}")).execute(&mut *tx).await;
        order.unwrap();
        let rows: Vec<NewRow> = [Placement::Queue, Placement::Slot, Placement::Queue]
            .into_iter()
            .map(|placement| NewRow {
                event: Event::text("OrderPlaced", "{}").aggregate("Order", n % 50).build().unwrap(),
                placement,
            })
            .collect();
        let added = store.insert(&mut tx, &rows).await;
        let ended = match added {
            Ok(_) => tx.commit().await,
            Err(error) => panic!("an insert failed: {error}"),
        };
        match ended {
            Ok(()) => drop(tally.written.fetch_add(1, Ordering::Relaxed)),
            Err(error) if is_deadlock(&error) => drop(tally.deadlocks.fetch_add(1, Ordering::Relaxed)),
            Err(error) => panic!("a commit failed: {error}"),
        }
    }
}

/// Claims, settles and purges as fast as it can.
async fn claim(fixture: Arc<Fixture>, tally: Arc<Tally>) {
    let (store, owner) = (fixture.beside(), OwnerId::random());
    while !tally.over.load(Ordering::Relaxed) {
        let from = if fastrand::bool() { ClaimFrom::Queue } else { ClaimFrom::Events };
        let lease = Duration::from_secs(60);
        let request = Claim {
            topics: Arc::default(),
            owner: owner.clone(),
            lease,
            rows: 50,
            bytes: pillarbox::port::ByteLimits::NONE,
            from,
            skip_recent: Duration::ZERO,
            now: None,
        };
        let rows = store.claim(request).await.unwrap();
        let outcomes = rows.iter().map(|row| Outcome {
            seq: row.seq,
            id: row.id.clone(),
            token: row.token,
            change: Change::Done,
        });
        let on_done = if fastrand::bool() { OnDone::Keep } else { OnDone::Delete };
        let request = Settle {
            fence: Fence::Owner(owner.clone()),
            outcomes: outcomes.collect(),
            on_done,
            repeats: None,
            now: None,
        };
        store.settle(request).await.unwrap();
        tally.settled.fetch_add(rows.len() as u64, Ordering::Relaxed);
        let purge = Purge { status: PurgeStatus::Done, older_than: Duration::ZERO, limit: 20, now: None };
        store.purge(purge).await.unwrap();
    }
}

/// How many deadlocks the server has counted, all its users' together.
async fn counted(fixture: &Fixture) -> Option<u64> {
    let sql = "SHOW GLOBAL STATUS LIKE 'Innodb_deadlocks'";
    let row = query(sql).fetch_optional(&mut fixture.connection().await).await.unwrap()?;
    row.try_get::<String, _>(1).unwrap().parse().ok()
}

/// PBX-024, RLY-012: eight writers beside four claimers, a reader and purges, for ten seconds: no deadlock.
#[tokio::test(flavor = "multi_thread")]
async fn claims_never_deadlock_business_inserts() {
    for fixture in Fixture::all().await {
        fixture.store().await;
        query("CREATE TABLE orders (id varchar(64) PRIMARY KEY)").execute(&fixture.pool).await.unwrap();
        let (fixture, tally) = (Arc::new(fixture), Arc::new(Tally::default()));
        let before = counted(&fixture).await;
        let mut tasks = JoinSet::new();
        for writer in 0..WRITERS {
            tasks.spawn(write(Arc::clone(&fixture), Arc::clone(&tally), writer));
        }
        for _ in 0..CLAIMERS {
            tasks.spawn(claim(Arc::clone(&fixture), Arc::clone(&tally)));
        }
        let reader = fixture.beside();
        let reading = async {
            let mut cursor = Cursor::default();
            loop {
                cursor = fetch_from(&reader, cursor).await.cursor;
            }
        };
        let _ = tokio::time::timeout(LASTS, reading).await;
        tally.over.store(true, Ordering::Relaxed);
        while let Some(ended) = tasks.join_next().await {
            ended.unwrap();
        }
        let (written, settled) =
            (tally.written.load(Ordering::Relaxed), tally.settled.load(Ordering::Relaxed));
        let after = counted(&fixture).await;
        println!(
            "{written} transactions, {settled} events settled; the server counted {before:?}, then {after:?}"
        );
        assert!(written > 0 && settled > 0);
        assert_eq!(tally.deadlocks.load(Ordering::Relaxed), 0);
    }
}
