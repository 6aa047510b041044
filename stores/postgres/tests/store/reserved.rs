//! Connections of the store's own: a pool without a free connection takes no lease away.

use std::time::Duration;

use pillarbox::Outbox;
use pillarbox_conformance::account_insert;
use pillarbox_postgres::sqlx::postgres::PgPoolOptions;
use pillarbox_postgres::sqlx::{AssertSqlSafe, query};
use pillarbox_postgres::{Pooler, PostgresStore};

use crate::kit::{Fixture, Seen};

const LEASE: Duration = Duration::from_secs(3);
/// How far the only node has been renewed since it joined, in leases, as long as it is the same node.
const RENEWED: &str = "SELECT (extract(epoch FROM expires_at - joined_at) / 3)::bigint FROM outbox_node";

/// PBX-011, PBX-014: every connection of the user's pool is in an open transaction, for longer than a lease.
#[tokio::test(flavor = "multi_thread")]
async fn an_exhausted_pool_stops_neither_heartbeats_nor_settles() {
    let Some(fixture) = Fixture::new().await else { return };
    fixture.store().await;
    let pool = PgPoolOptions::new().max_connections(2).connect_lazy_with(fixture.options.clone());
    let store = PostgresStore::builder(pool.clone()).pooler(Pooler::None).open();
    let seen = Seen::new();
    let outbox = seen.hear(Outbox::ordered(store)).lease(LEASE).poll_interval(Duration::from_millis(50));
    let outbox = outbox.start().await.unwrap();
    let mut held = [pool.begin().await.unwrap(), pool.begin().await.unwrap()];
    for (number, tx) in held.iter_mut().enumerate() {
        let order = format!("INSERT INTO orders VALUES ({number})");
        query(AssertSqlSafe(order)).execute(&mut **tx).await.unwrap();
    }
    for renewed in 2..=3 {
        let id = renewed.to_string();
        fixture.execute(&account_insert(&id, &id)).await;
        fixture
            .until(&format!("SELECT count(*) FROM outbox_event WHERE event_id = '{id}' AND status = 1"), 1)
            .await;
        fixture.until(RENEWED, renewed).await;
    }
    for tx in held {
        tx.rollback().await.unwrap();
    }
    outbox.close().await;
    assert_eq!(seen.ids(), ["2", "3"]);
    assert_eq!(fixture.number("SELECT count(*) FROM outbox_event WHERE attempts > 0").await, 0);
}
