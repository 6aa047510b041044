//! Calls that are dropped half way: whatever they had begun is over before the connection serves someone else.
//!
//! That is what begins and ends transactions. A statement on a transaction of the caller's is the driver's own: dropped while
//! it is prepared, sqlx loses the connection, whoever wrote the statement. The guide says so.

use pillarbox::model::{Event, NewRow, Placement};
use pillarbox::port::{Begin, CommitError, StoreError};
use pillarbox_conformance::within;
use pillarbox_mysql::MysqlStore;
use pillarbox_mysql::sqlx::mysql::MySqlPoolOptions;
use pillarbox_mysql::sqlx::query;
use tokio::time::timeout;

use crate::kit::{Fixture, NEVER};

/// No transaction needs more steps than this to its end.
const MOST_STEPS: usize = 200;
const ROUNDS: usize = 5;

/// PBX-024: wherever a begin or a commit with its events is dropped, the next user of the connection finds no transaction.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_call_leaves_no_open_transaction_in_the_pool() {
    for fixture in Fixture::all().await {
        fixture.store().await;
        let pool = MySqlPoolOptions::new().max_connections(1).connect_lazy_with(fixture.options.clone());
        let store = MysqlStore::new(pool.clone());
        for round in 0..ROUNDS {
            let mut finished = false;
            for steps in 0..MOST_STEPS {
                finished = within(steps, write_two(&store, &format!("{round}-{steps}"))).await.is_some();
                let mut connection = timeout(NEVER, pool.acquire()).await.unwrap().unwrap();
                // Fails within a transaction.
                let outside =
                    query("SET TRANSACTION ISOLATION LEVEL READ COMMITTED").execute(&mut *connection).await;
                assert!(outside.is_ok(), "dropped after {steps} steps");
                if finished {
                    break;
                }
            }
            assert!(finished, "{MOST_STEPS} steps were too few");
        }
        let events = fixture.number("SELECT count(*) FROM outbox_event").await;
        assert_eq!(events % 2, 0, "each transaction happened whole or not at all");
    }
}

fn row(id: &str) -> NewRow {
    NewRow { event: Event::text("OrderPlaced", "{}").id(id).build().unwrap(), placement: Placement::Slot }
}

async fn write_two(store: &MysqlStore, id: &str) -> Result<(), StoreError> {
    let tx = store.begin().await?;
    let rows = [row(&format!("{id}-a")), row(&format!("{id}-b"))];
    let committed = store.commit_with(tx, &rows, || ()).await;
    committed.map(drop).map_err(|error| match error {
        CommitError::Refused(error) | CommitError::Unknown(error) => error,
    })
}
