//! FlowCatalyst's tables as servers of old settings make them, and a leader beside its own settles.

use std::sync::Arc;
use std::time::Duration;

use pillarbox::model::{Event, NewRow, NodeId, Placement, Status};
use pillarbox::port::{
    Admin, ByteLimits, Change, Counts, Fence, ItemStore, OnDone, Order, Outcome, ReadScope, Recover,
    Register, Select, Settle, Table, Take, Wait, Write,
};
use pillarbox_mysql::MysqlItemStore;
use pillarbox_mysql::sqlx::{AssertSqlSafe, Executor as _, Row, query, raw_sql};
use tokio::task::JoinSet;

use crate::kit::{Fixture, run};

const LEASE: Duration = Duration::from_secs(600);

async fn items(fixture: &Fixture) -> MysqlItemStore {
    let store = fixture.builder().open_items();
    store.migrate().await.unwrap();
    store
}

/// PBX-103: the statements for people run on a database that has the table, and change nothing there.
#[tokio::test(flavor = "multi_thread")]
async fn printed_statements_can_be_run_again() {
    for fixture in Fixture::all().await {
        let store = fixture.builder().open_items();
        for _ in 0..2 {
            fixture.pool.execute(raw_sql(AssertSqlSafe(fixture.builder().items_schema_sql()))).await.unwrap();
            store.check().await.unwrap();
        }
    }
}

async fn leader(store: &MysqlItemStore) -> NodeId {
    let node = NodeId::from_random(7);
    store
        .register(Register {
            node,
            label: "leader".to_owned(),
            reads: ReadScope::Share,
            lease: LEASE,
            now: None,
        })
        .await
        .unwrap();
    node
}

fn take(node: NodeId, rows: usize) -> Take {
    let ungrouped_order = Order::PerGroup;
    Take {
        bytes: ByteLimits::NONE,
        node,
        after: None,
        except: Vec::new(),
        rows,
        each: rows,
        ungrouped: rows,
        ungrouped_order,
        now: None,
    }
}

async fn fill(store: &MysqlItemStore, count: usize) {
    let row = |number: usize| {
        let item =
            Event::text("EVENT", "{}").id(format!("0HZXEQ5Y{number:05}")).group(format!("g{}", number % 9));
        NewRow { event: item.build_within(&store.facts().limits).unwrap(), placement: Placement::Slot }
    };
    store.write(Write { rows: (0..count).map(row).collect(), now: None }).await.unwrap();
}

/// PBX-084: with old settings a column of times is NOT NULL, and holds a date of zeros where nobody set one.
#[tokio::test]
async fn a_date_of_zeros_stops_nothing() {
    for fixture in Fixture::all().await {
        let store = items(&fixture).await;
        let mut connection = fixture.connection().await;
        run(
            &mut connection,
            "SET SESSION sql_mode = ''; \
             ALTER TABLE outbox_events MODIFY processed_at TIMESTAMP NOT NULL DEFAULT '0000-00-00 00:00:00'; \
             INSERT INTO outbox_events (id, type, message_group, payload, status, created_at) VALUES \
             ('0HZXEQ5Y8J5K0', 'EVENT', 'a', '{}', 'PENDING', utc_timestamp()), \
             ('0HZXEQ5Y8J5K1', 'EVENT', NULL, '{}', 'PENDING', utc_timestamp()), \
             ('0HZXEQ5Y8J5K2', 'EVENT', 'b', '{}', 'PROCESSING', utc_timestamp())",
        )
        .await;
        let node = leader(&store).await;
        let taken = store.take(take(node, 10)).await.unwrap().rows;
        assert_eq!(taken.len(), 2);
        let (error, delay) = ("no".to_owned(), Duration::ZERO);
        let retry = Change::Retry { delay, error, counts: Counts::NotMade(0), wait: Wait::InPlace };
        let outcomes = taken.iter().zip([Change::Done, retry]).map(|(row, change)| Outcome {
            seq: row.seq,
            id: row.id.clone(),
            token: row.token,
            change,
        });
        let settle = Settle {
            fence: Fence::Node(node),
            outcomes: outcomes.collect(),
            on_done: OnDone::Keep,
            repeats: None,
            now: None,
        };
        let settled = store.settle(settle).await.unwrap();
        assert!(settled.held && settled.stale.is_empty() && settled.busy.is_empty(), "{settled:?}");
        // Its age is that of the item, as where it has no time.
        let hour = Duration::from_secs(3_600);
        let recover = |older_than| Recover { node, older_than, except: Vec::new(), rows: 10, now: None };
        assert_eq!(store.recover(recover(hour)).await.unwrap(), 0);
        assert_eq!(store.recover(recover(Duration::ZERO)).await.unwrap(), 1);
        assert_eq!(store.take(take(node, 10)).await.unwrap().rows.len(), 2);
        store.stats().await.unwrap();
    }
}

/// PBX-084
#[tokio::test]
async fn the_time_of_an_item_is_null_until_it_is_claimed() {
    for fixture in Fixture::all().await {
        let store = items(&fixture).await;
        fill(&store, 1).await;
        assert_eq!(fixture.number("SELECT count(*) FROM outbox_events WHERE processed_at IS NULL").await, 1);
        let nullable = "SELECT count(*) FROM information_schema.columns WHERE table_schema = database() \
            AND table_name = 'outbox_events' AND column_name = 'processed_at' AND is_nullable = 'YES'";
        assert_eq!(fixture.number(nullable).await, 1);
    }
}

async fn deadlocks(fixture: &Fixture) -> Option<u64> {
    let sql = "SHOW GLOBAL STATUS LIKE 'Innodb_deadlocks'";
    let row = query(sql).fetch_optional(&mut fixture.connection().await).await.unwrap()?;
    row.try_get::<String, _>(1).unwrap().parse().ok()
}

/// PBX-084: a leader gives back what is old, over and over, while it settles what it took.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recovery_never_deadlocks_with_settles() {
    const ITEMS: usize = 3_000;
    for fixture in Fixture::all().await {
        let store = Arc::new(items(&fixture).await);
        let node = leader(&store).await;
        fill(&store, ITEMS).await;
        let before = deadlocks(&fixture).await;
        let recovering = Arc::clone(&store);
        let mut recovery = JoinSet::new();
        recovery.spawn(async move {
            loop {
                let recover = Recover {
                    node,
                    older_than: Duration::from_millis(1),
                    except: Vec::new(),
                    rows: 500,
                    now: None,
                };
                recovering.recover(recover).await.unwrap();
            }
        });
        let done = Select { statuses: vec![Status::Done], ..Select::default() };
        while store.count(done.clone()).await.unwrap() < ITEMS as u64 {
            let taken = store.take(take(node, 300)).await.unwrap().rows;
            let outcomes = taken.iter().map(|row| Outcome {
                seq: row.seq,
                id: row.id.clone(),
                token: row.token,
                change: Change::Done,
            });
            let outcomes = outcomes.collect();
            let settle = Settle {
                fence: Fence::Node(node),
                outcomes,
                on_done: OnDone::Keep,
                repeats: None,
                now: None,
            };
            assert!(store.settle(settle).await.unwrap().held);
        }
        assert!(recovery.try_join_next().is_none(), "recovery failed");
        recovery.abort_all();
        assert_eq!(deadlocks(&fixture).await, before, "the server counted deadlocks");
    }
}
